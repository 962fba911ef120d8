import type { Service } from '../../kernel/foundation/service.ts'
import type { JobKind, Jobs } from '../../kernel/jobs/jobs.ts'
import { isRequested, requestJobs, selectJobs } from '../../kernel/jobs/requests.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'

export const accessCleanup = 'access_cleanup'

/**
 * Records that end users were erased or members' access ended, which requires cleanup outside the database. Call it in
 * the transaction of the change: once it commits, the cleanup runs immediately, or later on any node. Repeating it makes
 * cleanup that has failed run again at once.
 */
export const requestAccessCleanup = (sql: Sql, personIds: readonly string[]): Promise<void> =>
  requestJobs(sql, accessCleanup, personIds)

export const isCleanupRequested = (sql: Sql, personId: string): Promise<boolean> =>
  isRequested(sql, accessCleanup, personId)

/** Those whose cleanup hasn't ended. */
export const selectAccessCleanups = (sql: Sql): Promise<string[]> => selectJobs(sql, accessCleanup)

export interface AccessCleanup {
  /** Never fails: a step that fails is retried later. */
  finish(organizationId: string, personId: string): Promise<void>
  kind: JobKind
}

/** A cleanup step. It must be idempotent, because it can be repeated, even by two nodes at the same time. */
export type AccessCleanupStep = (service: Service, organizationId: string, personId: string) => Promise<void>

export const createAccessCleanup = (
  service: Service & { jobs: Jobs },
  steps: readonly AccessCleanupStep[],
): AccessCleanup => ({
  finish: (organizationId, personId) => service.jobs.run({ organizationId, kind: accessCleanup, key: personId }),
  kind: {
    name: accessCleanup,
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
