import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

/** Requests queue behind a statement that waits for a lock, so it doesn't wait for longer. */
const lockMs = 2_000

/** Long enough for a dump of a small database. */
export const defaultPatienceMs = 5 * 60_000

export interface Patience {
  /** For how long to try again if others hold the locks. */
  patienceMs: number
  /** Called before each new try, with the sessions that were in the way. */
  onWait?: (text: string) => void
}

/**
 * Runs a transaction that changes the schema of a database in use. If it can't get a lock soon, it's rolled back, so
 * that the requests behind it go on, and tried again.
 */
export async function inShortLocks(
  client: pg.Client,
  connection: pg.ClientConfig,
  { patienceMs, onWait }: Patience,
  work: () => Promise<unknown>,
): Promise<void> {
  const end = performance.now() + patienceMs
  for (let pauseMs = 250; ; pauseMs = Math.min(2 * pauseMs, 5_000)) {
    // Looks who is in the way while this transaction waits, because afterwards it's too late.
    const waiting = new AbortController()
    const blockers = findBlockers(connection, processIdOf(client), waiting.signal)
    try {
      await client.query(`begin; set local lock_timeout = ${lockMs}`)
      await work()
      await client.query('commit')
      return
    } catch (error) {
      await client.query('rollback').catch(() => undefined) // A lost connection has already rolled back.
      if (!isBlocked(error)) throw error
      const reason = `${error.message}; ${await blockers}`
      if (performance.now() + pauseMs > end) throw new Error(reason, { cause: error })
      onWait?.(reason)
    } finally {
      waiting.abort()
      await blockers
    }
    await sleep(pauseMs)
  }
}

/** A timeout of the lock, or a deadlock. */
const isBlocked = (error: unknown): error is pg.DatabaseError =>
  error instanceof pg.DatabaseError && (error.code === '55P03' || error.code === '40P01')

const processIdOf = (client: pg.Client): number => (client as unknown as { processID: number }).processID

/** Describes the sessions that block another one at half of its timeout. */
async function findBlockers(connection: pg.ClientConfig, processId: number, signal: AbortSignal): Promise<string> {
  try {
    await sleep(lockMs / 2, undefined, { signal })
  } catch {
    return 'it was not blocked for long'
  }
  const client = new pg.Client({ ...connection, application_name: 'inlay migrate' })
  client.on('error', () => undefined) // The query reports the error.
  try {
    await client.connect()
    const { rows } = await client.query<{ session: string }>(
      `select format('process %s of %s%s%s', pid, coalesce(usename, 'PostgreSQL'),
                     case when application_name <> '' then format(' (%s)', application_name) end,
                     case when xact_start is not null then format(', in a transaction since %s: %s', xact_start, left(query, 200)) end)
                as session
       from pg_stat_activity where pid = any(pg_blocking_pids($1)) order by xact_start`,
      [processId],
    )
    if (rows.length === 0) return 'it was not blocked for long'
    return `blocked by ${rows.map(({ session }) => session).join('; ')}`
  } catch (error) {
    return `could not find out what blocks it: ${(error as Error).message}`
  } finally {
    await client.end()
  }
}
