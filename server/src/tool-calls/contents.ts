import { type OrgCaller, trailOf } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { keepDoing } from '../lib/clock.ts'
import { recordAudit } from '../stores/audit/audit.ts'
import { topics } from '../stores/bus-messages.ts'
import type { Sql } from '../stores/database.ts'
import { FreshCache } from '../stores/fresh-cache.ts'
import type * as contract from './contract.ts'

/** The arguments and result of a call, stored only if the organization has enabled it. */
export interface CallContents {
  call_id: string
  user_email: string
  arguments: string
  result: string | null
  at: string
  expires_at: string
}

/** Maximum length of the arguments and of the result, in UTF-16 code units. Longer text is truncated. */
const maxLength = 16 * 1024
const cachedOrganizations = 10_000
const dayMs = 24 * 60 * 60 * 1000

/** How many days an organization keeps contents. */
export interface ContentsDays {
  /** Undefined if the value isn't cached. */
  cached(organizationId: string): number | undefined
  load(organizationId: string): Promise<number>
}

export function createContentsDays({ changes, clock, database }: Service): ContentsDays {
  const known = new FreshCache<{ organizationId: string; days: number }>({
    changes,
    clock,
    limit: cachedOrganizations,
    topicsOf: ({ organizationId }) => [topics.toolCallSettings(organizationId)],
  })
  return {
    cached: (organizationId) => known.get(organizationId)?.days,
    async load(organizationId) {
      const read = () => database.asOrg(organizationId, async (sql) => ({ organizationId, days: await readDays(sql) }))
      return (await known.load(organizationId, read))?.days ?? 0
    },
  }
}

async function readDays(sql: Sql): Promise<number> {
  const [organization] = await sql<{ days: number }>`
    select tool_call_contents_days as days from organizations where id = current_organization()`
  return organization?.days ?? 0
}

export function describeContents(
  call: { id: string; at: number; user_email: string },
  days: number,
  args: unknown,
  result: unknown,
): CallContents {
  return {
    call_id: call.id,
    user_email: call.user_email,
    arguments: writeJson(args),
    result: result === undefined ? null : writeJson(result),
    at: new Date(call.at).toISOString(),
    expires_at: new Date(call.at + days * dayMs).toISOString(),
  }
}

const writeJson = (value: unknown): string => JSON.stringify(value).slice(0, maxLength).toWellFormed()

/**
 * Writes contents only for callers who are also end users, so that deleting the end user deletes their contents. The
 * lock makes a concurrent deletion either wait and delete these contents, or finish first so that none are written.
 */
export async function writeContents(sql: Sql, contents: readonly CallContents[]): Promise<void> {
  const emails = [...new Set(contents.map(({ user_email }) => user_email))].sort()
  const users = await sql<{ email: string }>`
    select email from end_users where email = any (${emails}::text[]) order by id for key share`
  const known = new Set(users.map(({ email }) => email))
  const kept = contents.filter(({ user_email }) => known.has(user_email))
  await sql`
    insert into tool_call_contents (organization_id, call_id, user_email, arguments, result, at, expires_at)
    select current_organization(), call_id, user_email, arguments, result, at, expires_at
    from jsonb_to_recordset(${JSON.stringify(kept)}::jsonb) as r (
      call_id uuid, user_email text, arguments text, result text, at timestamptz, expires_at timestamptz)
    on conflict do nothing`
}

/** Runs in the transaction that deletes the end user, whose row is locked. */
export const eraseEndUserContents = (sql: Sql, endUserId: string) => sql`
  delete from tool_call_contents
  where user_email <> '' and user_email = (select email from end_users where id = ${endUserId})`

export async function getToolCallSettings(
  { database }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.getToolCallSettings>> {
  return { contents_days: await database.asOrg(organization.id, readDays) }
}

const shortenedAtOnce = 5_000

export async function updateToolCallSettings(
  { changes, database }: Service,
  caller: OrgCaller,
  { contents_days }: Input<typeof contract.updateToolCallSettings>,
): Promise<Output<typeof contract.updateToolCallSettings>> {
  const organizationId = caller.organization.id
  await database.asOrg(organizationId, async (sql) => {
    const [before] = await sql<{ days: number }>`
      select tool_call_contents_days as days from organizations where id = current_organization() for update`
    await sql`
      update organizations set tool_call_contents_days = ${contents_days}, updated_at = now()
      where id = current_organization()`
    const change = { contents_days, before: before?.days }
    await recordAudit(sql, trailOf(caller), 'tool_call_settings.updated', organizationId, change)
  })
  changes.announce(topics.toolCallSettings(organizationId))
  // A shorter period also applies to stored contents; a longer one doesn't. Batched, because there may be many rows.
  for (let count = shortenedAtOnce; count === shortenedAtOnce; ) {
    const shortened = await database.asOrg(
      organizationId,
      (sql) => sql`
        update tool_call_contents set expires_at = at + ${contents_days} * interval '1 day'
        where call_id in (
          select call_id from tool_call_contents
          where expires_at > at + ${contents_days} * interval '1 day' limit ${shortenedAtOnce})
        returning call_id`,
    )
    count = shortened.length
  }
  return { contents_days }
}

const expireEveryMs = 60_000
const expiredAtOnce = 1_000

/** Deletes expired contents regularly. Queries already exclude them. */
export function keepExpiring({ database, log }: Service, everyMs = expireEveryMs) {
  async function expire(): Promise<void> {
    const found = await database.asExpirer(
      (sql) => sql<{ organization_id: string }>`
        select distinct organization_id from (
          select organization_id from tool_call_contents
          where expires_at < now() order by expires_at limit ${expiredAtOnce}) expired`,
    )
    for (const { organization_id } of found) {
      await database.asOrg(
        organization_id,
        (sql) => sql`
          delete from tool_call_contents where call_id in (
            select call_id from tool_call_contents where expires_at < now() limit ${expiredAtOnce})`,
      )
    }
    if (found.length > 0) await expire()
  }
  const run = () =>
    expire().catch((error) => log.warn({ err: error }, 'Could not delete expired tool call contents; retrying'))
  return keepDoing(run, everyMs)
}
