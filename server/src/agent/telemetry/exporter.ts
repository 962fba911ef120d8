import type { Log } from '../../kernel/lib/log.ts'
import type { Receiver, Signal } from './receiver.ts'
import { createSpanQueue } from './span-queue.ts'

export interface Exporter {
  /** Takes an encoded span. Never waits: if too many wait already, the span is dropped. */
  add(span: Buffer): void
  /** Sends what is left, for at most two seconds. */
  close(): Promise<void>
}

interface Parts {
  receiver: Receiver
  log: Log
  /** Returns the body of a request for spans. */
  writeTraces(spans: readonly Buffer[]): Buffer
  /** Returns the body of a request for metrics; undefined if there are none. */
  writeMetrics(): Buffer | undefined
  sendEveryMs: number
}

const metricsEveryMs = 60_000
const longestPauseMs = 60_000
const closeWithinMs = 2_000

export function createExporter(parts: Parts): Exporter {
  const { log, writeTraces, writeMetrics, sendEveryMs } = parts
  const closing = new AbortController()
  const traces = createChannel(parts, 'traces', closing.signal)
  const metrics = createChannel(parts, 'metrics', closing.signal)
  const queue = createSpanQueue()
  let dropped = 0
  let metricsAt = performance.now() + metricsEveryMs
  let sending: Promise<void> | undefined

  async function sendSpans(): Promise<void> {
    while (queue.length > 0 && !traces.isPaused()) {
      const spans = queue.peek()
      const outcome = await traces.post(writeTraces(spans))
      if (outcome === 'later') return
      queue.remove(spans.length)
      if (outcome === 'refused') dropped += spans.length
      else if (dropped > 0) {
        log.warn({ spans: dropped }, 'Spans were dropped because the telemetry receiver didn’t accept them in time')
        dropped = 0
      }
    }
  }

  async function sendMetrics(): Promise<void> {
    const body = metrics.isPaused() ? undefined : writeMetrics()
    if (body) await metrics.post(body)
  }

  async function send(): Promise<void> {
    await sendSpans()
    if (performance.now() < metricsAt) return
    metricsAt = performance.now() + metricsEveryMs
    await sendMetrics()
  }

  const timer = setInterval(() => {
    sending ??= send()
      .catch((error) => log.error({ err: error }, 'Could not send telemetry'))
      .finally(() => {
        sending = undefined
      })
  }, sendEveryMs)
  timer.unref()

  return {
    add(span) {
      if (!queue.add(span)) dropped += 1
    },
    async close() {
      clearInterval(timer)
      const giveUp = setTimeout(() => closing.abort(), closeWithinMs)
      await sending
      await Promise.all([sendSpans(), sendMetrics()])
      clearTimeout(giveUp)
      const lost = queue.length + dropped
      if (lost > 0) log.warn({ spans: lost }, 'Spans were dropped, because the telemetry receiver didn’t accept them')
    },
  }
}

/** Requests for one kind of data. */
interface Channel {
  /** After a failure, requests pause for longer each time. */
  isPaused(): boolean
  /** `later`: the same data may be accepted later. Logs the first of several failures in a row. */
  post(body: Buffer): Promise<'accepted' | 'refused' | 'later'>
}

function createChannel({ receiver, log, sendEveryMs }: Parts, signal: Signal, closing: AbortSignal): Channel {
  const about = { url: receiver.url, signal }
  let failures = 0
  let pausedUntil = 0
  return {
    isPaused: () => performance.now() < pausedUntil,
    async post(body) {
      const refusal = await receiver.post(signal, body, closing)
      if (!refusal) {
        if (failures > 0) log.info(about, 'The telemetry receiver accepts data again')
        failures = 0
        return 'accepted'
      }
      const { status, err, message, isTemporary, isUnsupported } = refusal
      if (failures === 0 && !closing.aborted) log.warn({ ...about, status, err }, message)
      failures += 1
      pausedUntil = isUnsupported ? Number.POSITIVE_INFINITY : performance.now() + pauseAfter(failures, sendEveryMs)
      return isTemporary ? 'later' : 'refused'
    },
  }
}

/** Randomized, so that nodes don't all retry at once. */
const pauseAfter = (failures: number, firstMs: number): number =>
  Math.min(longestPauseMs, firstMs * 2 ** Math.min(failures, 10)) * (0.5 + Math.random() / 2)
