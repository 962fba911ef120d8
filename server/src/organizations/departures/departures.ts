import type { Service } from '../../kernel/foundation/service.ts'
import type { JobKind, Jobs } from '../../kernel/jobs/jobs.ts'
import { isRequested, requestJobs, selectJobs } from '../../kernel/jobs/requests.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'

export const departure = 'departure'

/**
 * Records that end users were erased or members' access ended, which requires cleanup outside the database. Call it in
 * the transaction of the change: once it commits, the cleanup runs immediately, or later on any node. Repeating it makes
 * cleanup that has failed run again at once.
 */
export const recordDepartures = (sql: Sql, personIds: readonly string[]): Promise<void> =>
  requestJobs(sql, departure, personIds)

export const isDeparting = (sql: Sql, personId: string): Promise<boolean> => isRequested(sql, departure, personId)

/** Those whose cleanup hasn't ended. */
export const selectDepartures = (sql: Sql): Promise<string[]> => selectJobs(sql, departure)

export interface Departures {
  /** Never fails: a step that fails is retried later. */
  finish(organizationId: string, personId: string): Promise<void>
  kind: JobKind
}

/** A cleanup step. It must be idempotent, because it can be repeated, even by two nodes at the same time. */
export type DepartureStep = (service: Service, organizationId: string, personId: string) => Promise<void>

export const createDepartures = (service: Service & { jobs: Jobs }, steps: readonly DepartureStep[]): Departures => ({
  finish: (organizationId, personId) => service.jobs.run({ organizationId, kind: departure, key: personId }),
  kind: {
    name: departure,
    atOnce: 8,
    longestMs: 5 * 60_000,
    retryWithinSeconds: 30,
    async run({ organizationId, key: personId }) {
      service.changes.announce(topics.endUser(personId), topics.user(personId))
      for (const step of steps) await step(service, organizationId, personId)
      return 'done'
    },
  },
})
