import type { Service } from '../foundation/service.ts'
import { randomText } from '../lib/ids.ts'
import { createRequestLog, type FinishedRequest } from '../lib/log.ts'

/** One request, from its arrival to its answer. */
export interface Observation {
  requestId: string
  /** What every answer carries. The surface that answers adds its own to the same object. */
  headers: Record<string, string>
  end(operation: string, method: string, status: number): void
}

const securityHeaders = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}
const productionHeaders = { ...securityHeaders, 'strict-transport-security': 'max-age=31536000; includeSubDomains' }

/** A request id, security headers, one log line and one measurement for every request. */
export function createObserver({ log, config, metrics }: Pick<Service, 'log' | 'config' | 'metrics'>) {
  const fixedHeaders = config.mode === 'production' ? productionHeaders : securityHeaders
  const writeLines = createRequestLog(log)
  // The lines of one turn of the event loop are written together, after its answers.
  let finished: FinishedRequest[] = []
  const report = () => {
    const requests = finished
    finished = []
    writeLines(requests)
  }

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
        if (finished.length === 0) setImmediate(report)
        // The route, not the address: a path or a query could hold what must not be written down.
        finished.push({ request_id: requestId, method, operation, status, ms })
      },
    }
  }
}
