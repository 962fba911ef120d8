import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { againAt, type JobKind } from '../../kernel/jobs/jobs.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { FreshCache } from '../../kernel/stores/fresh-cache.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { isEmailVerified } from '../../visitors/identity-provider/verified-emails.ts'
import type * as contract from './contract.ts'

/** The arguments and result of a call, stored only if the organization has enabled it. */
export interface CallContents {
  call_id: string
  person: Person
  arguments: string
  result: string | null
  at: string
  expires_at: string
}

/** Whose contents these are: an end user, or a member, who may be an end user too. */
export type Person = { endUserId: string } | { memberId: string; verifiedEmail: string | undefined }

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
  call: { id: string; at: number },
  person: Person,
  days: number,
  args: unknown,
  result: unknown,
): CallContents {
  return {
    call_id: call.id,
    person,
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
  const endUserOf = await findEndUsers(
    sql,
    contents.map(({ person }) => person),
  )
  const kept = contents.flatMap(({ person, ...one }) => {
    const end_user_id = endUserOf(person)
    return end_user_id === undefined ? [] : { ...one, end_user_id, user_id: callerOf(person) }
  })
  await sql`
    insert into tool_call_contents (organization_id, call_id, end_user_id, user_id, arguments, result, at, expires_at)
    select current_organization(), call_id, end_user_id, user_id, arguments, result, at, expires_at
    from jsonb_to_recordset(${JSON.stringify(kept)}::jsonb) as r (
      call_id uuid, end_user_id uuid, user_id uuid, arguments text, result text, at timestamptz, expires_at timestamptz)
    on conflict do nothing`
  const [first] = kept.map(({ expires_at }) => expires_at).sort()
  if (first !== undefined) await requestJob(sql, contentsExpiry, { due: { at: first } })
}

const callerOf = (person: Person): string => ('endUserId' in person ? person.endUserId : person.memberId)

interface EndUser {
  id: string
  issuer: string
  email_key: string
  metadata: string
  preview_user_id: string | null
  merged_into: string | null
}

/**
 * Finds and locks the end users with whom the contents of these people are kept. A member's are kept with the end user
 * of their previews, or with one whose address the organization's provider has verified: anybody may state another one.
 */
async function findEndUsers(sql: Sql, people: readonly Person[]): Promise<(person: Person) => string | undefined> {
  const ids = people.flatMap((person) => ('endUserId' in person ? person.endUserId : []))
  const members = people.flatMap((person) => ('memberId' in person ? person : []))
  const memberIds = members.map(({ memberId }) => memberId)
  const emails = members.flatMap(({ verifiedEmail }) => verifiedEmail ?? [])
  const found = await sql<EndUser>`
    select id, issuer, email_key, metadata, preview_user_id, merged_into from end_users where id = any (${ids}::uuid[])
    union
    select id, issuer, email_key, metadata, preview_user_id, merged_into from end_users
    where email_key = any (${emails}::text[]) or preview_user_id = any (${memberIds}::uuid[])`
  // What another identity provider's end user became, if they were carried over meanwhile.
  const keepers = found.map((one) => ({ ...one, keeper: one.merged_into ?? one.id }))
  const locked = await sql<{ id: string }>`
    select id from end_users where id = any (${keepers.map(({ keeper }) => keeper)}::uuid[]) order by id for key share`
  const known = new Set(locked.map(({ id }) => id))
  const endUsers = keepers.filter(({ keeper }) => known.has(keeper))
  const byId = new Map(endUsers.map(({ id, keeper }) => [id, keeper]))
  const byMember = new Map(endUsers.map(({ preview_user_id, keeper }) => [preview_user_id, keeper]))
  const byEmail = new Map(endUsers.filter(isVerified).map(({ email_key, keeper }) => [email_key, keeper]))
  return (person) =>
    'endUserId' in person
      ? byId.get(person.endUserId)
      : (byMember.get(person.memberId) ?? byEmail.get(person.verifiedEmail ?? ''))
}

/** The metadata has the claims of the last ID token. */
const isVerified = ({ issuer, email_key, metadata }: EndUser): boolean =>
  email_key !== '' && isEmailVerified(issuer, JSON.parse(metadata))

/** The users who are, as members, the same person as the end user. */
async function findMembers(sql: Sql, endUserId: string): Promise<string[]> {
  const [endUser] = await sql<EndUser>`
    select id, issuer, email_key, metadata, preview_user_id, merged_into from end_users where id = ${endUserId}`
  if (!endUser) return []
  const sharing = isVerified(endUser)
    ? await sql<{ id: string }>`select id from users where email = ${endUser.email_key} and email_verified`
    : []
  return [...sharing.map(({ id }) => id), ...(endUser.preview_user_id === null ? [] : [endUser.preview_user_id])]
}

/** The contents of an end user, and of a member who is the same person. */
export async function selectContents(sql: Sql, endUserId: string, after: string, limit: number) {
  const members = await findMembers(sql, endUserId)
  return sql<{ call_id: string; [column: string]: unknown }>`
    select call_id, arguments, result, at, expires_at from tool_call_contents
    where call_id > ${after} and expires_at > now()
      and (end_user_id = ${endUserId} or user_id = any (${members}::uuid[]))
    order by call_id limit ${limit}`
}

/** Runs in the transaction that deletes the end user, whose row is locked. */
export async function eraseEndUserContents(sql: Sql, endUserId: string): Promise<void> {
  const members = await findMembers(sql, endUserId)
  await sql`
    delete from tool_call_contents where end_user_id = ${endUserId} or user_id = any (${members}::uuid[])`
}

export async function getToolCallSettings(
  { database }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.getToolCallSettings>> {
  return { contents_days: await database.asOrg(organization.id, readDays) }
}

export const contentsExpiry = 'contents_expiry'
const shortenedAtOnce = 5_000
const beforeAllIds = '00000000-0000-0000-0000-000000000000'

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
  for (let last: string | undefined = beforeAllIds; last !== undefined; ) {
    const after: string = last
    last = await database.asOrg(organizationId, (sql) => shortenSome(sql, after, contents_days))
  }
  await database.asOrg(organizationId, (sql) =>
    requestJob(sql, contentsExpiry, { due: { inSeconds: expireEverySeconds } }),
  )
  return { contents_days }
}

/** Walks through the contents by ID, so that no batch passes those of the batches before. Returns the last ID. */
async function shortenSome(sql: Sql, after: string, days: number): Promise<string | undefined> {
  const [walked] = await sql<{ last: string | null }>`
    with walked as materialized (
      select call_id from tool_call_contents where call_id > ${after} order by call_id limit ${shortenedAtOnce}
    ), shortened as (
      update tool_call_contents set expires_at = at + ${days} * interval '1 day'
      where call_id = any(array(select call_id from walked)) and expires_at > at + ${days} * interval '1 day'
    )
    select (select call_id from walked order by call_id offset ${shortenedAtOnce - 1}) as last`
  return walked?.last ?? undefined
}

const expiredAtOnce = 1_000
const expireEverySeconds = 60

/** Deletes an organization's contents after they have expired. Queries already exclude them. */
export const expiringContents: JobKind = {
  name: contentsExpiry,
  atOnce: 2,
  longestMs: 15 * 60_000,
  async run(job) {
    while (await job.transaction(deleteExpired)) job.signal.throwIfAborted()
    return job.settle(async (sql) => {
      const [next] = await sql<{ at: string | null }>`
        select case when count(*) > 0
               then greatest(min(expires_at), now() + make_interval(secs => ${expireEverySeconds})) end as at
        from (select expires_at from tool_call_contents where organization_id = (select current_organization())
              order by expires_at limit 1) first`
      return againAt(next?.at)
    })
  },
}

async function deleteExpired(sql: Sql): Promise<boolean> {
  const deleted = await sql`
    delete from tool_call_contents where call_id in (
      select call_id from tool_call_contents
      where organization_id = (select current_organization()) and expires_at < now() limit ${expiredAtOnce})
    returning call_id`
  return deleted.length > 0
}
