import type { Sql } from '../../kernel/stores/database.ts'

/** What can be done at the billing provider for an organization. */
export type BillingTask = 'sync' | 'seats' | 'usage'

/**
 * Asks for a task in the caller's transaction. Once it commits, a node does the task, now or after a delay, and retries
 * it until it succeeds.
 */
export const requestWork = (sql: Sql, task: BillingTask, afterSeconds = 0) => sql`
  insert into billing_work as work (organization_id, task, due_at)
  values (current_organization(), ${task}, now() + ${afterSeconds} * interval '1 second')
  on conflict (organization_id, task) do update set
    requests = work.requests + 1, due_at = least(work.due_at, excluded.due_at)`
