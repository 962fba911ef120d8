import { setTimeout as delay } from 'node:timers/promises'
import type { Service } from '../../kernel/foundation/service.ts'
import { Failure, serviceUnavailable } from '../../kernel/lib/errors.ts'
import { checkUsage, recordUsage, type UsageRecord } from './record.ts'

/** Batches concurrent usage events into few statements. */
export interface UsageRecorder {
  /** Resolves when the event is durable, and rejects if it wasn't recorded. Failed writes aren't retried. */
  record(event: UsageRecord): Promise<void>
  /** Waits until every event passed to `record` so far is durable or rejected. */
  flush(): Promise<void>
  /** Rejects new events and waits for the queued ones to be written. */
  close(): Promise<void>
}

interface Waiting {
  event: UsageRecord
  resolve: () => void
  reject: (error: unknown) => void
}

const gatherMs = 5
const batchSize = 1_000
/** Upper bound for queued events, so that a slow database can't exhaust memory. */
const mostWaiting = 100_000

export function createUsageRecorder(service: Pick<Service, 'database'>): UsageRecorder {
  /** One queue per organization, because a batch can't mix them. The queue keeps filling while a batch is written. */
  const queues = new Map<string, Waiting[]>()
  const writers = new Set<Promise<void>>()
  let waiting = 0
  let isClosed = false

  async function write(organizationId: string, queue: Waiting[]): Promise<void> {
    await delay(gatherMs)
    while (queue.length > 0) {
      const batch = queue.splice(0, batchSize)
      await recordBatch(service, batch)
      waiting -= batch.length
    }
    queues.delete(organizationId)
  }

  function enqueue(entry: Waiting): void {
    const { organization_id } = entry.event
    waiting += 1
    const queue = queues.get(organization_id)
    if (queue) return void queue.push(entry)
    const fresh = [entry]
    queues.set(organization_id, fresh)
    const writer = write(organization_id, fresh).finally(() => writers.delete(writer))
    writers.add(writer)
  }

  const flush = async () => void (await Promise.all(writers))
  return {
    async record(event) {
      checkUsage(event)
      if (isClosed) throw serviceUnavailable('The server is stopping')
      if (waiting >= mostWaiting) throw serviceUnavailable('Usage events are arriving faster than they can be recorded')
      await new Promise<void>((resolve, reject) => enqueue({ event, resolve, reject }))
    },
    flush,
    async close() {
      isClosed = true
      await flush()
    },
  }
}

/** A rejected event fails its whole batch, so the batch is split until only that event is left out. */
async function recordBatch(service: Pick<Service, 'database'>, batch: Waiting[]): Promise<void> {
  try {
    await recordUsage(
      service,
      batch.map(({ event }) => event),
    )
    for (const { resolve } of batch) resolve()
  } catch (error) {
    const isRefusal = error instanceof Failure && error.envelope.status === 400
    if (!isRefusal || batch.length === 1) {
      for (const { reject } of batch) reject(error)
      return
    }
    const half = Math.ceil(batch.length / 2)
    await recordBatch(service, batch.slice(0, half))
    await recordBatch(service, batch.slice(half))
  }
}
