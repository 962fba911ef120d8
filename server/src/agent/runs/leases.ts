import type { Service } from '../../kernel/foundation/service.ts'
import { CallerGone } from '../../kernel/foundation/tool.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Database, Transaction } from '../../kernel/stores/database.ts'

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
  /** Aborts with a `Stopped`, a `LeaseLost`, or what `end` was called with. */
  signal: AbortSignal
  /**
   * A transaction that only happens if the lease still holds. The work must not do anything but SQL, and wait for `held`
   * before it commits by itself.
   */
  write<T>(work: (sql: Transaction, held: Promise<void>) => Promise<T>): Promise<T>
  /** Loses the lease if it has ended by this process's clock, because the process was suspended. */
  mayStillCall(): boolean
  /** Ends the run for this reason. */
  end(reason: Error): void
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
/** Runs that are taken over at the same time. */
const mostAtOnce = 4

type HeldLease = Lease & { abort: AbortController; extend(until: number): void }

type Needed = Pick<Service, 'database' | 'log'>

export function createLeases({ database, log }: Needed, takeOver: (run: Abandoned) => Promise<void>): Leases {
  const node = newId()
  const held = new Map<string, HeldLease>()
  let isClosed = false
  /** By organization. */
  const renewing = new Map<string, Promise<void>>()
  /** When to try again, for the runs that could not be taken over. */
  const failed = new Map<string, number>()

  /** Each organization on its own, so that none waits for another. */
  function renew(): void {
    for (const [id, leases] of Map.groupBy(held.values(), ({ organizationId }) => organizationId)) {
      if (renewing.has(id)) continue
      const done = renewOf(id, leases)
        .catch((error) => log.warn({ err: error }, 'Could not renew the leases of runs'))
        .finally(() => renewing.delete(id))
      renewing.set(id, done)
    }
  }

  /** Also finds stop requests whose message was lost. */
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
    for (const [id, retryAt] of failed) if (performance.now() >= retryAt) failed.delete(id)
    const runs = await database.asKeeper(
      (sql) => sql<Abandoned>`
        select organization_id, id from runs
        where status = 'running' and lease_until < now() and id <> all(${[...failed.keys()]}::uuid[])
        order by lease_until limit ${mostTakenOver}`,
    )
    const queue = runs.values()
    const takeTurns = async () => {
      for (const run of queue) if (!isClosed) await tryTakeOver(run)
    }
    await Promise.all(Array.from({ length: mostAtOnce }, takeTurns))
  }

  /** A run that can't be taken over must not keep others from it. */
  async function tryTakeOver(run: Abandoned): Promise<void> {
    try {
      await takeOver(run)
    } catch (error) {
      failed.set(run.id, performance.now() + leaseSeconds * 1000)
      log.warn({ err: error, run_id: run.id }, 'Could not take a run over')
    }
  }

  let finding: Promise<void> | undefined
  const timer = setInterval(() => {
    renew()
    finding ??= findAbandoned()
      .catch((error) => log.warn({ err: error }, 'Could not find abandoned runs'))
      .finally(() => {
        finding = undefined
      })
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
        end: (reason) => abort.abort(reason),
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
      // They may be taking runs over, or extend leases that are handed over below.
      await Promise.all([finding, ...renewing.values()])
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
