import { setTimeout as delay } from 'node:timers/promises'
import type { Service } from '../foundation/service.ts'
import { Failure, serviceUnavailable } from '../lib/errors.ts'
import { checkUsage, recordUsage, type UsageRecord } from './record.ts'

/** Gathers what arrives at once into few statements. */
export interface UsageRecorder {
  /** Resolves when the event is durable, and rejects when it was not recorded. Nothing is tried again behind the scenes. */
  record(event: UsageRecord): Promise<void>
  /** Waits until everything recorded so far is durable or refused. */
  flush(): Promise<void>
  /** Records what is waiting, then takes nothing more. */
  close(): Promise<void>
}

interface Waiting {
  event: UsageRecord
  resolve: () => void
  reject: (error: unknown) => void
}

const gatherMs = 5
const batchSize = 1_000
/** A database that cannot follow must not fill the memory. */
const mostWaiting = 100_000

export function createUsageRecorder(service: Pick<Service, 'database'>): UsageRecorder {
  /** By organization: a batch is of one, and while it is being written the next one gathers. */
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
      if (waiting >= mostWaiting) throw serviceUnavailable('Usage arrives faster than it can be recorded')
      await new Promise<void>((resolve, reject) => enqueue({ event, resolve, reject }))
    },
    flush,
    async close() {
      isClosed = true
      await flush()
    },
  }
}

/** A refusal is about one event and nothing was written: its neighbours are recorded without it. */
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
