import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/** Counts per operation, never per organization or user, because readers of metrics may not be allowed to see those. */
export interface Metrics {
  observeRequest(operation: string, status: number, seconds: number): void
  /** Counts a caller that a protocol's checks refused. */
  countRefusal(surface: string, code: string): void
  /** Sets the function that returns the number of open sockets whenever the metrics are read. */
  countSockets(count: () => number): void
  /** Sets the function that reads how far background jobs are behind whenever the metrics are read. */
  observeJobs(read: () => Promise<JobMetrics[]>): void
  requestStarted(): void
  requestEnded(): void
  render(): Promise<string>
  contentType: string
}

interface JobMetrics {
  kind: string
  due: number
  oldest_seconds: number
  failing: number
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
  let readJobs = async (): Promise<JobMetrics[]> => []
  const jobGauge = (name: string, help: string) => new Gauge({ name, help, labelNames: ['kind'], registers })
  const failing = jobGauge('inlay_jobs_failing', 'Background jobs that keep failing, on all nodes')
  const oldest = jobGauge('inlay_jobs_oldest_seconds', 'How long the oldest due job has waited, on all nodes')
  const due = jobGauge('inlay_jobs_due', 'Background jobs that wait for a node, on all nodes')
  async function measureJobs() {
    const kinds = await readJobs()
    for (const gauge of [due, oldest, failing]) gauge.reset()
    for (const { kind, ...values } of kinds) {
      due.set({ kind }, values.due)
      oldest.set({ kind }, values.oldest_seconds)
      failing.set({ kind }, values.failing)
    }
  }
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
    observeJobs(read) {
      readJobs = read
    },
    async render() {
      countRequests()
      await measureJobs()
      return registry.metrics()
    },
    contentType: registry.contentType,
  }
}
