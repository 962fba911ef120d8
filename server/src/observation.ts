import { newId } from './lib/ids.ts'
import type { Foundation } from './service.ts'

/** One request, from its arrival to its answer. */
export interface Observation {
  requestId: string
  /** What every answer carries. */
  headers: Record<string, string>
  end(operation: string, method: string, status: number): void
}

const securityHeaders = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}
const productionHeaders = { ...securityHeaders, 'strict-transport-security': 'max-age=31536000; includeSubDomains' }

/** A request id, security headers, one log line and one measurement for every request. */
export function createObserver({ log, config, metrics }: Pick<Foundation, 'log' | 'config' | 'metrics'>) {
  const fixedHeaders = config.mode === 'production' ? productionHeaders : securityHeaders
  // The lines of one turn of the event loop are written together after its answers, which is cheaper than one by one.
  let lines: object[] = []
  const writeLines = () => {
    const finished = lines
    lines = []
    for (const line of finished) log.info(line, 'request')
  }

  return (): Observation => {
    const started = performance.now()
    const requestId = newId()
    metrics.requestStarted()
    return {
      requestId,
      headers: { ...fixedHeaders, 'x-request-id': requestId },
      end(operation, method, status) {
        const milliseconds = performance.now() - started
        metrics.requestEnded()
        metrics.observeRequest(operation, status, milliseconds / 1000)
        if (lines.length === 0) setImmediate(writeLines)
        // The route, not the address: a path or a query could hold what must not be written down.
        lines.push({ request_id: requestId, method, operation, status, ms: Math.round(milliseconds * 10) / 10 })
      },
    }
  }
}
