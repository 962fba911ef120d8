import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/** Counts per operation, never per organization or user, because readers of metrics may not be allowed to see those. */
export interface Metrics {
  observeRequest(operation: string, status: number, seconds: number): void
  /** Counts a caller that a protocol's checks refused. */
  countRefusal(surface: string, code: string): void
  /** Sets the function that returns the number of open sockets whenever the metrics are read. */
  countSockets(count: () => number): void
  requestStarted(): void
  requestEnded(): void
  render(): Promise<string>
  contentType: string
}

const countTogether = 1000

export function createMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  const duration = new Histogram({
    name: 'inlay_http_request_duration_seconds',
    help: 'Duration of requests in seconds',
    labelNames: ['operation'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  })
  const total = new Counter({
    name: 'inlay_http_requests_total',
    help: 'Completed requests',
    labelNames: ['operation', 'status'],
    registers,
  })
  let inProgress = 0
  new Gauge({
    name: 'inlay_http_requests_in_progress',
    help: 'Requests in progress',
    registers,
    collect() {
      this.set(inProgress)
    },
  })
  let countOpenSockets = () => 0
  new Gauge({
    name: 'inlay_runtime_sockets',
    help: 'Widgets connected to this node',
    registers,
    collect() {
      this.set(countOpenSockets())
    },
  })
  const refusals = new Counter({
    name: 'inlay_refusals_total',
    help: 'Refused callers, by surface and code',
    labelNames: ['surface', 'code'],
    registers,
  })
  // Batched, because counting each request between other work takes several times as long.
  let uncounted: { operation: string; status: number; seconds: number }[] = []
  function countRequests() {
    for (const { operation, status, seconds } of uncounted) {
      duration.observe({ operation }, seconds)
      total.inc({ operation, status: String(status) })
    }
    uncounted = []
  }

  return {
    countSockets(count) {
      countOpenSockets = count
    },
    countRefusal: (surface, code) => refusals.inc({ surface, code }),
    observeRequest(operation, status, seconds) {
      if (uncounted.push({ operation, status, seconds }) >= countTogether) countRequests()
    },
    requestStarted: () => void inProgress++,
    requestEnded: () => void inProgress--,
    render() {
      countRequests()
      return registry.metrics()
    },
    contentType: registry.contentType,
  }
}
