import type { Sql } from '../stores/database.ts'

/** Stands for the organization of jobs that belong to none. The largest UUID, so that it comes last in the order. */
export const noOrganization = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** When a job is due: at a time, or after some seconds. */
export type Due = { at: string } | { inSeconds: number }

const now: Due = { inSeconds: 0 }

/** Requests a job of the transaction's organization. */
export const requestJob = (sql: Sql, kind: string, { key = '', due = now }: { key?: string; due?: Due } = {}) =>
  requestJobs(sql, kind, [key], due)

/**
 * Requests jobs of the transaction's organization, one for each key. They run if the transaction commits, and see what
 * it wrote. A job that is waiting already becomes due no later than requested, and one that is running runs once more.
 * If it failed, only a request for now hastens its retry.
 * An organization that is gone gets none. Request them at the end of a transaction: a job's row stays locked until the
 * commit.
 */
export async function requestJobs(sql: Sql, kind: string, keys: readonly string[], due: Due = now): Promise<void> {
  if (keys.length === 0) return
  if (due === now) sql.wakeWorker?.()
  await sql`
    select request_jobs(current_organization(), ${kind}, ${keys},
                        ${timeOf(due)}::timestamptz + make_interval(secs => ${secondsOf(due)}))`
}

/** Requests a job that belongs to no organization, also in an organization's transaction. Its key must be new. */
export async function requestOwnJob(sql: Sql, kind: string, key: string): Promise<void> {
  sql.wakeWorker?.()
  await sql`insert into jobs (organization_id, kind, key) values (${noOrganization}, ${kind}, ${key})`
}

/** Withdraws an organization's job. If a node is running it, that run can no longer write. */
export const withdrawJob = (sql: Sql, kind: string, key = '') => sql`
  delete from jobs where organization_id = (select current_organization()) and kind = ${kind} and key = ${key}`

/** Whether the organization's job hasn't ended. */
export async function isRequested(sql: Sql, kind: string, key: string): Promise<boolean> {
  const found = await sql`
    select from jobs where organization_id = (select current_organization()) and kind = ${kind} and key = ${key}`
  return found.length > 0
}

/** The keys of an organization's jobs that haven't ended. */
export async function selectJobs(sql: Sql, kind: string): Promise<string[]> {
  const rows = await sql<{ key: string }>`
    select key from jobs where organization_id = (select current_organization()) and kind = ${kind} order by key`
  return rows.map(({ key }) => key)
}

const timeOf = (due: Due): string => ('at' in due ? due.at : 'now')
const secondsOf = (due: Due): number => ('at' in due ? 0 : due.inSeconds)
