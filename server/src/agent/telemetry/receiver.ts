import type { Config } from '../../kernel/config/config.ts'
import { createSafeFetch, privateNetworks } from '../../kernel/net/safe-fetch.ts'

export type Signal = 'traces' | 'metrics'

/** Why a receiver didn't accept data. Without a status, there was no response. */
interface Refusal {
  status?: number
  err?: unknown
  /** What is wrong, and what to do. */
  message: string
  /** The same data may be accepted later. */
  isTemporary: boolean
  /** The receiver doesn't know this kind of data; Phoenix, for example, has no metrics. */
  isUnsupported: boolean
}

/** The operator's OpenTelemetry receiver. */
export interface Receiver {
  url: string
  /** Returns undefined if the data was accepted. Never throws. */
  post(signal: Signal, body: Buffer, abort?: AbortSignal): Promise<Refusal | undefined>
  close(): Promise<void>
}

/** OpenTelemetry's default. */
const timeoutMs = 10_000
/** The statuses after which OTLP allows a retry. */
const temporary = new Set([429, 502, 503, 504])
const unsupported = new Set([404, 405, 501])

export function createReceiver(
  { url, headers }: NonNullable<Config['telemetry']>,
  { allowedPrivateNetworks }: Pick<Config, 'allowedPrivateNetworks'>,
): Receiver {
  // The operator chose the address, so it may be private.
  const fetch = createSafeFetch({
    allowedPrivateNetworks: [...privateNetworks, ...allowedPrivateNetworks],
    timeoutMs,
  })
  return {
    url,
    async post(signal, body, abort) {
      try {
        const { status, ok } = await fetch(`${url}/v1/${signal}`, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/x-protobuf' },
          body,
          signal: abort ?? null,
        })
        if (ok) return undefined
        const isUnsupported = signal === 'metrics' && unsupported.has(status)
        const message = explain(status, isUnsupported)
        return { status, message, isTemporary: temporary.has(status), isUnsupported }
      } catch (err) {
        const message =
          'The telemetry receiver can’t be reached. Check OTEL_EXPORTER_OTLP_ENDPOINT, and that the receiver runs.'
        return { err, message, isTemporary: true, isUnsupported: false }
      }
    },
    close: () => fetch.close(),
  }
}

function explain(status: number, isUnsupported: boolean): string {
  if (isUnsupported) return `The telemetry receiver doesn’t accept metrics (${status}). Only traces are sent.`
  const setting = status === 401 || status === 403 ? 'OTEL_EXPORTER_OTLP_HEADERS' : 'OTEL_EXPORTER_OTLP_ENDPOINT'
  const advice = temporary.has(status) || status >= 500 ? 'Check its log.' : `Check ${setting}.`
  return `The telemetry receiver refused the request (${status}). ${advice}`
}
