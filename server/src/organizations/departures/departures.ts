import type { Service } from '../../kernel/foundation/service.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'

/**
 * Records that an end user was erased or a member's access ended, which requires cleanup outside the database. The row
 * is written in the transaction of the change: once it commits, the cleanup runs immediately, or later on any node.
 */
export const recordDeparture = (sql: Sql, personId: string) => sql`
  insert into departures (organization_id, person_id) values (current_organization(), ${personId}) on conflict do nothing`

export async function isDeparting(sql: Sql, personId: string): Promise<boolean> {
  const [unfinished] = await sql`select from departures where person_id = ${personId}`
  return unfinished !== undefined
}

export interface Departures {
  /** Never fails: a step that fails is retried later. */
  finish(organizationId: string, personId: string): Promise<void>
  close(): Promise<void>
}

/** A cleanup step. It must be idempotent, because it can be repeated, even by two nodes at the same time. */
export type DepartureStep = (service: Service, organizationId: string, personId: string) => Promise<void>

const finishEveryMs = 30_000
const mostAtOnce = 100

/** Finishes departures, at startup and periodically also those left over from crashes and unreachable stores. */
export function createDepartures(
  service: Service,
  steps: readonly DepartureStep[],
  everyMs = finishEveryMs,
): Departures {
  const { changes, database, log } = service

  /** Those that failed here since the last round that had none left: a round begins with the others. */
  let failed = new Set<string>()

  async function finish(organizationId: string, personId: string): Promise<void> {
    try {
      changes.announce(topics.endUser(personId), topics.user(personId))
      for (const step of steps) await step(service, organizationId, personId)
      await database.asOrg(organizationId, (sql) => sql`delete from departures where person_id = ${personId}`)
    } catch (error) {
      failed.add(`${organizationId}:${personId}`)
      log.warn({ err: error }, 'Could not finish a departure; retrying later')
    }
  }

  async function finishAll(): Promise<void> {
    try {
      const unfinished = await database.asFinisher(
        (sql) => sql<{ organization_id: string; person_id: string }>`
          select organization_id, person_id from departures
          where organization_id || ':' || person_id <> all(${[...failed]}::text[])
          order by created_at limit ${mostAtOnce}`,
      )
      // The next round tries them again.
      if (unfinished.length < mostAtOnce) failed = new Set()
      for (const { organization_id, person_id } of unfinished) await finish(organization_id, person_id)
    } catch (error) {
      log.warn({ err: error }, 'Could not list unfinished departures')
    }
  }

  let finishing = finishAll()
  const timer = setInterval(() => {
    finishing = finishing.then(finishAll)
  }, everyMs)
  timer.unref()
  return {
    finish,
    async close() {
      clearInterval(timer)
      await finishing
    },
  }
}
