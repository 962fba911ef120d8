import type { Service } from '../foundation/service.ts'
import { CallerGone } from '../foundation/tool.ts'
import { newId } from '../lib/ids.ts'
import type { Database, Transaction } from '../stores/database.ts'

/** Another node works on the run now, or it has ended. Whatever this node was doing for it no longer counts. */
export class LeaseLost extends CallerGone {
  override name = 'LeaseLost'
}

interface Held {
  organizationId: string
  threadId: string
  runId: string
  epoch: number
}

/** This node's right to work on a run. */
export interface Lease extends Held {
  /** Aborts with a `Stopped` or a `LeaseLost`. */
  signal: AbortSignal
  /**
   * A transaction that only happens if the lease still holds. The work must not do anything but SQL, and wait for `held`
   * before it commits by itself.
   */
  write<T>(work: (sql: Transaction, held: Promise<void>) => Promise<T>): Promise<T>
  /** Loses the lease if it has ended by this process's clock, because the process was suspended. */
  mayStillCall(): boolean
  /** Ends the work without writing anything. */
  lose(): void
  release(): void
}

/** The user stopped the run. */
export class Stopped extends Error {
  override name = 'Stopped'
}

/** A run that its node has abandoned. */
export interface Abandoned {
  organization_id: string
  id: string
}

export interface Leases {
  node: string
  hold(held: Held): Lease
  stop(runId: string): void
  /** Lets other nodes continue the runs of this one at once. */
  close(): Promise<void>
}

/** How long a node can be silent before another takes its runs over. */
export const leaseSeconds = 8
const renewEveryMs = 2_000
const mostTakenOver = 100

type HeldLease = Lease & { abort: AbortController; extend(until: number): void }

type Needed = Pick<Service, 'database' | 'log'>

export function createLeases({ database, log }: Needed, takeOver: (run: Abandoned) => Promise<void>): Leases {
  const node = newId()
  const held = new Map<string, HeldLease>()
  let isClosed = false

  /** Also finds stop requests whose message was lost. */
  async function renew(): Promise<void> {
    const byOrganization = Map.groupBy(held.values(), ({ organizationId }) => organizationId)
    await Promise.all(Array.from(byOrganization, ([id, leases]) => renewOf(id, leases)))
  }

  async function renewOf(organizationId: string, leases: HeldLease[]): Promise<void> {
    const until = performance.now() + leaseSeconds * 1000
    const renewed = await database.asOrg(
      organizationId,
      (sql) => sql<{ id: string; epoch: number; is_stopped: boolean }>`
        update runs set lease_until = now() + make_interval(secs => ${leaseSeconds})
        where id = any(${leases.map(({ runId }) => runId)}::uuid[]) and node = ${node} and status = 'running'
        returning id, epoch, stop_requested_at is not null as is_stopped`,
    )
    const known = new Map(renewed.map((run) => [run.id, run]))
    for (const lease of leases) {
      const run = known.get(lease.runId)
      if (run?.epoch !== lease.epoch) lease.lose()
      else if (run.is_stopped) lease.abort.abort(new Stopped())
      else lease.extend(until)
    }
  }

  async function findAbandoned(): Promise<void> {
    const runs = await database.asKeeper(
      (sql) => sql<Abandoned>`
        select organization_id, id from runs where status = 'running' and lease_until < now()
        order by lease_until limit ${mostTakenOver}`,
    )
    for (const run of runs) if (!isClosed) await takeOver(run)
  }

  async function renewAndFind(): Promise<void> {
    try {
      if (held.size > 0) await renew()
      if (!isClosed) await findAbandoned()
    } catch (error) {
      log.warn({ err: error }, 'Could not renew the leases of runs')
    }
    busy = undefined
  }

  let busy: Promise<void> | undefined
  const timer = setInterval(() => {
    busy ??= renewAndFind()
  }, renewEveryMs)
  timer.unref()

  return {
    node,
    hold(claimed) {
      const { runId } = claimed
      const abort = new AbortController()
      // In the time of `performance.now()`, and never later than in the database.
      let endsAt = 0
      const lease: HeldLease = {
        ...claimed,
        abort,
        signal: abort.signal,
        extend(until) {
          endsAt = Math.max(endsAt, until)
        },
        write: (work) => writeUnder(database, { ...claimed, node, extend: lease.extend }, work),
        mayStillCall() {
          if (performance.now() >= endsAt) lease.lose()
          return !abort.signal.aborted
        },
        lose: () => abort.abort(new LeaseLost()),
        release: () => {
          if (held.get(runId) === lease) held.delete(runId)
        },
      }
      held.set(runId, lease)
      return lease
    },
    stop: (runId) => held.get(runId)?.abort.abort(new Stopped()),
    async close() {
      isClosed = true
      clearInterval(timer)
      // It may be taking a run over.
      await busy
      const leases = [...held.values()]
      for (const lease of leases) lease.lose()
      for (const { organizationId, runId, epoch } of leases) {
        await database
          .asOrg(
            organizationId,
            (sql) =>
              sql`update runs set lease_until = now() where id = ${runId} and epoch = ${epoch} and status = 'running'`,
          )
          .catch((error) => log.warn({ err: error }, 'Could not hand a run over'))
      }
    },
  }
}

function writeUnder<T>(
  database: Database,
  { organizationId, threadId, runId, epoch, node, extend }: Held & { node: string; extend(until: number): void },
  work: (sql: Transaction, held: Promise<void>) => Promise<T>,
): Promise<T> {
  const startedAt = performance.now()
  return database.asOrg(organizationId, async (sql) => {
    // Locks the thread first; see lockThread. The work is sent with it, to save a round trip: without a lease, the
    // transaction is rolled back.
    const locking = sql<{ left_ms: number }>`
      select (extract(epoch from lease_until - now()) * 1000)::float8 as left_ms
      from runs where id = ${runId} and epoch = ${epoch} and node = ${node} and status = 'running'
        and thread_id = (select id from threads where id = ${threadId} for no key update)
      for no key update`
    const held = locking.then(([run]) => {
      if (!run) throw new LeaseLost()
      extend(startedAt + run.left_ms)
    })
    const working = work(sql, held)
    working.catch(() => undefined)
    await held
    return working
  })
}
