import type { Service } from '../foundation/service.ts'
import { topics } from '../stores/changes.ts'
import type { Sql } from '../stores/database.ts'

/**
 * What has to be done outside the database when an end user is erased or a member's access ends. The row is written in the
 * transaction of the change, so from its commit on the departure can't fail any more: the rest is done at once, or later,
 * on any node.
 */
export const recordDeparture = (sql: Sql, personId: string) => sql`
  insert into departures (organization_id, person_id) values (current_organization(), ${personId}) on conflict do nothing`

export async function isDeparting(sql: Sql, personId: string): Promise<boolean> {
  const [unfinished] = await sql`select from departures where person_id = ${personId}`
  return unfinished !== undefined
}

export interface Departures {
  /** Never fails: what cannot be done now is tried again. */
  finish(organizationId: string, personId: string): Promise<void>
  close(): Promise<void>
}

/** Something that ends with a person's access. It can be repeated, also by two nodes at once. */
type Step = (service: Service, organizationId: string, personId: string) => Promise<void>

const finishEveryMs = 30_000
const mostAtOnce = 100

/** Finishes departures, among them what crashes and unreachable engines left over: at the start and from time to time. */
export function createDepartures(service: Service, steps: readonly Step[], everyMs = finishEveryMs): Departures {
  const { changes, database, log } = service

  async function finish(organizationId: string, personId: string): Promise<void> {
    try {
      changes.announce(topics.endUser(personId), topics.user(personId))
      for (const step of steps) await step(service, organizationId, personId)
      await database.asOrg(organizationId, (sql) => sql`delete from departures where person_id = ${personId}`)
    } catch (error) {
      log.warn({ err: error }, 'a departure is not finished and will be tried again')
    }
  }

  async function finishAll(): Promise<void> {
    try {
      const unfinished = await database.asFinisher(
        (sql) => sql<{ organization_id: string; person_id: string }>`
          select organization_id, person_id from departures order by created_at limit ${mostAtOnce}`,
      )
      for (const { organization_id, person_id } of unfinished) await finish(organization_id, person_id)
    } catch (error) {
      log.warn({ err: error }, 'unfinished departures could not be listed')
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
