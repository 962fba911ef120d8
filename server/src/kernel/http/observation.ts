import type { Service } from '../foundation/service.ts'
import { randomText } from '../lib/ids.ts'
import { createRequestLog, type FinishedRequest } from '../lib/log.ts'
import { createTurnBatch } from '../lib/turn-batch.ts'

/** Observes one request, from its arrival to its response. */
export interface Observation {
  requestId: string
  /** Headers of every response. The code that responds adds its own to the same object. */
  headers: Record<string, string>
  end(operation: string, method: string, status: number): void
}

const securityHeaders = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}
const productionHeaders = { ...securityHeaders, 'strict-transport-security': 'max-age=31536000; includeSubDomains' }

/** Adds a request id, security headers, a log line and a measurement to every request. */
export function createObserver({ log, config, metrics }: Pick<Service, 'log' | 'config' | 'metrics'>) {
  const fixedHeaders = config.mode === 'production' ? productionHeaders : securityHeaders
  const finished = createTurnBatch<FinishedRequest>(createRequestLog(log))

  return (): Observation => {
    const started = performance.now()
    const requestId = randomText(22)
    metrics.requestStarted()
    return {
      requestId,
      headers: { ...fixedHeaders, 'x-request-id': requestId },
      end(operation, method, status) {
        const ms = performance.now() - started
        metrics.requestEnded()
        metrics.observeRequest(operation, status, ms / 1000)
        // Logs the operation, not the address, because a path or a query could contain secrets.
        finished.add({ request_id: requestId, method, operation, status, ms })
      },
    }
  }
}
