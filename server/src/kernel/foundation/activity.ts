import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { Database, Sql } from '../stores/database.ts'

/**
 * Collects what isn't worth a write per request, such as when a key was last used, and writes it about once a second; a
 * kill loses that second.
 */
export interface Activity {
  /** Notes that something happened now. What has the same key is counted together, with the first `fact`. */
  note<Fact>(
    kind: ActivityKind<Fact>,
    organizationId: string,
    key: string,
    ...fact: Fact extends undefined ? [] : [fact: Fact]
  ): void
  flush(): Promise<void>
  close(): Promise<void>
}

/** A kind of activity, declared by the capability that writes it. */
export interface ActivityKind<Fact = undefined> {
  /** Where it's written. Kinds are written in the order of their tables, so that two nodes can't deadlock. */
  table: string
  /** Maximum number of different keys per organization and second, if callers can choose keys. */
  limit?: number
  /** Writes what was noted in an organization. For the same reason, it's sorted by key. */
  write(sql: Sql, noted: readonly Noted<Fact>[]): Promise<unknown>
}

interface Noted<Fact = undefined> {
  key: string
  fact: Fact
  count: number
  /** When it happened last, as an ISO timestamp. */
  at: string
}

interface Engines {
  database: Database
  clock: Clock
  log: Log
}

interface Entry {
  fact: unknown
  count: number
  at: number
}

type Pending = Map<ActivityKind<unknown>, Map<string, Entry>>

const flushEveryMs = 1_000

export function createActivity({ database, clock, log }: Engines): Activity {
  let pending = new Map<string, Pending>()

  async function flush(): Promise<void> {
    const taken = pending
    pending = new Map()
    for (const [organizationId, work] of taken) {
      await database
        .asOrg(organizationId, (sql) => write(sql, work))
        .catch((error) => log.warn({ err: error }, 'could not write activity'))
    }
  }

  let flushing = Promise.resolve()
  /** Also waits for a write that is already in progress. */
  const flushInTurn = () => {
    flushing = flushing.then(flush)
    return flushing
  }
  const timer = setInterval(flushInTurn, flushEveryMs)
  timer.unref()

  return {
    note(kind, organizationId, key, ...[fact]) {
      const entries = pending
        .getOrInsertComputed(organizationId, (): Pending => new Map())
        .getOrInsertComputed(kind as ActivityKind<unknown>, () => new Map())
      const known = entries.get(key)
      if (known) {
        known.count += 1
        known.at = clock()
      } else if (entries.size < (kind.limit ?? Number.POSITIVE_INFINITY))
        entries.set(key, { fact, count: 1, at: clock() })
    },
    flush: flushInTurn,
    async close() {
      clearInterval(timer)
      await flushInTurn()
    },
  }
}

async function write(sql: Sql, pending: Pending): Promise<void> {
  for (const [kind, entries] of [...pending].sort(([a], [b]) => inOrder(a.table, b.table))) {
    const sorted = [...entries].sort(([a], [b]) => inOrder(a, b))
    await kind.write(
      sql,
      sorted.map(([key, { fact, count, at }]) => ({ key, fact, count, at: new Date(at).toISOString() })),
    )
  }
}

const inOrder = (a: string, b: string): number => (a < b ? -1 : 1)
