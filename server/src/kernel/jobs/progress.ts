import type { Database } from '../stores/database.ts'

/** How far a kind of jobs is behind, over all organizations. Kinds that aren't are left out. */
interface KindProgress {
  kind: string
  /** Jobs that wait for a node. */
  due: number
  /** For how long the oldest of them has waited. */
  oldest_seconds: number
  /** Jobs that failed at least three times in a row, or for good. */
  failing: number
  /** Those of them that aren't tried again. */
  given_up: number
  last_error: string | null
}

export const readProgress = (database: Database): Promise<KindProgress[]> =>
  database.asWorker(
    (sql) => sql<KindProgress>`
      with due as (
        select kind, due_at from jobs where is_due and due_at <= now()
        union all
        select kind, due_at from jobs where not is_due and due_at <= now()
      ), late as (
        select kind, count(*) as due, extract(epoch from max(now() - due_at)) as oldest from due group by kind
      ), bad as (
        select kind, count(*) as failing, count(*) filter (where due_at = 'infinity') as given_up,
               max(last_error) as last_error
        from jobs where attempts >= 3 or not is_due and due_at = 'infinity' group by kind
      )
      select kind, coalesce(due, 0) as due, coalesce(oldest, 0)::float as oldest_seconds, coalesce(failing, 0) as failing,
             coalesce(given_up, 0) as given_up, last_error
      from late full join bad using (kind) order by kind`,
  )
