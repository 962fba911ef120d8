import type { Service } from '../../kernel/foundation/service.ts'
import { keepDoing, type Repeated } from '../../kernel/lib/clock.ts'
import type { Sql } from '../../kernel/stores/database.ts'

const expireEveryMs = 60 * 60_000
const expiredAtOnce = 1_000

/**
 * Deletes the counters of past days and months regularly. Only those of the current ones are read; a call that began
 * before is settled soon after, or when another node takes over its run.
 */
export function keepExpiringBudgets(
  { database, log }: Pick<Service, 'database' | 'log'>,
  everyMs = expireEveryMs,
): Repeated {
  async function expire(): Promise<void> {
    const found = await database.asExpirer(
      (sql) => sql<{ organization_id: string }>`
        select distinct organization_id from budget_periods
        where period = 'day' and starts_on < current_date - ${keptDays.day}::int
           or period = 'month' and starts_on < current_date - ${keptDays.month}::int`,
    )
    for (const { organization_id } of found) while (await database.asOrg(organization_id, deleteSome));
  }
  const tryToExpire = () =>
    expire().catch((error) => log.warn({ err: error }, 'Could not delete old counters of budgets; retrying'))
  return keepDoing(tryToExpire, everyMs)
}

/** A month is needed until its last day. */
const keptDays = { day: 7, month: 62 }

async function deleteSome(sql: Sql): Promise<boolean> {
  const deleted = await sql`
    delete from budget_periods where ctid = any(array(
      select ctid from budget_periods
      where period = 'day' and starts_on < current_date - ${keptDays.day}::int
         or period = 'month' and starts_on < current_date - ${keptDays.month}::int
      limit ${expiredAtOnce} for update skip locked))
    returning period`
  return deleted.length > 0
}
