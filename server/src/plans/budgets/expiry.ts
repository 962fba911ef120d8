import type { JobKind } from '../../kernel/jobs/jobs.ts'
import type { Sql } from '../../kernel/stores/database.ts'

export const budgetExpiry = 'budget_expiry'
export const expireBudgetsEverySeconds = 24 * 60 * 60
const expiredAtOnce = 1_000

/**
 * Deletes the counters of past days and months of each organization. Only those of the current ones are read; a call that
 * began before is settled soon after, or when another node takes over its run.
 */
export const expiringBudgets: JobKind = {
  name: budgetExpiry,
  atOnce: 2,
  longestMs: 15 * 60_000,
  async run(job) {
    while (await job.transaction(deleteSome)) job.signal.throwIfAborted()
    return { again: { inSeconds: expireBudgetsEverySeconds } }
  },
}

/** A month is needed until its last day. */
const keptDays = { day: 7, month: 62 }

async function deleteSome(sql: Sql): Promise<boolean> {
  const deleted = await sql`
    delete from budget_periods where ctid = any(array(
      select ctid from budget_periods
      where organization_id = (select current_organization())
        and (period = 'day' and starts_on < current_date - ${keptDays.day}::int
             or period = 'month' and starts_on < current_date - ${keptDays.month}::int)
      limit ${expiredAtOnce} for update skip locked))
    returning period`
  return deleted.length > 0
}
