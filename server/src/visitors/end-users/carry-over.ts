import { type MemberCaller, type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { invalid } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { announceAll } from '../../kernel/stores/changes.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { type AccessCleanup, requestAccessCleanup } from '../../organizations/access-cleanup/access-cleanup.ts'
import { moveEndUserUsage } from '../../plans/usage/usage.ts'
import { DiscoveryFailed, discover } from '../identity-provider/discovery.ts'
import { readIdentityProvider } from '../identity-provider/identity-provider.ts'
import { findTrustedIssuer } from '../identity-provider/issuers.ts'
import { isEmailVerified } from '../identity-provider/verified-emails.ts'
import type * as contract from './contract.ts'

type Answer = Output<typeof contract.carryOverEndUsers>
type Conflict = Answer['conflicts'][number]

/** An end user of the former issuer, and the subject that the current one knows them by. */
interface Pair {
  id: string
  from: string
  to: string
  /** The end user who has already come with that subject. */
  arrived: string | undefined
}

interface Plan {
  pairs: Pair[]
  conflicts: Conflict[]
  isComplete: boolean
}

/** How many end users a request carries over: the audit row has the ID of each. */
const mostPairs = 1_000
const shownConflicts = 100

export async function listIssuers(
  service: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.listIssuers>> {
  const current = await findCurrentIssuer(service, organization.id).catch(expectInvalid)
  const issuers = await service.database.asOrg(
    organization.id,
    (sql) => sql<{ issuer: string | null; end_users: number }>`
      select nullif(substr(list, length('end_users/') + 1), '') as issuer, sum(items) as end_users from list_totals
      where starts_with(list, 'end_users/') group by list having sum(items) > 0 order by sum(items) desc, list`,
  )
  return { current_issuer: current, issuers }
}

/** A provider that can't be reached, or isn't configured, has no end users to show yet. */
function expectInvalid(error: unknown): null {
  if (error instanceof CurrentIssuerUnknown) return null
  throw error
}

class CurrentIssuerUnknown extends Error {
  override name = 'CurrentIssuerUnknown'
}

/** The issuer that ID tokens must have now, as the provider's discovery document spells it. */
async function findCurrentIssuer(service: Service, organizationId: string): Promise<string> {
  const settings = await service.database.asOrg(organizationId, readIdentityProvider)
  const trusted = findTrustedIssuer(settings, service.config.mode)
  if (!trusted) throw new CurrentIssuerUnknown('Configure the new identity provider first')
  if (!trusted.issuerPattern) return trusted.issuer
  return discover(service, trusted).then(
    ({ issuer }) => issuer,
    (cause) => {
      if (cause instanceof DiscoveryFailed) throw new CurrentIssuerUnknown(cause.message, { cause })
      throw cause
    },
  )
}

/**
 * Lets end users of a former identity provider keep what they have under the current one. Only an administrator can say
 * who is who: two providers can give the same subject to different people.
 */
export async function carryOverEndUsers(
  service: Service & { accessCleanup: AccessCleanup },
  caller: MemberCaller,
  { from_issuer, by, users, is_preview }: Input<typeof contract.carryOverEndUsers>,
): Promise<Answer> {
  const organizationId = caller.organization.id
  const to = await findCurrentIssuer(service, organizationId).catch((error) => {
    throw error instanceof CurrentIssuerUnknown ? invalid('', error.message) : error
  })
  const from = from_issuer ?? ''
  if (from === to) throw invalid('from_issuer', 'This is the current issuer. Its end users need not be carried over.')
  const { plan, departed } = await service.database.asOrg(organizationId, async (sql) => {
    // Serializes it with itself and with changes of the plan.
    await sql`select from organizations where id = current_organization() for no key update`
    const plan = by === 'list' ? await planByList(sql, from, to, users ?? []) : await planByAddress(sql, from, to)
    if (is_preview || plan.pairs.length === 0) return { plan, departed: [] }
    const departed = await moveToArrived(sql, plan.pairs)
    await sql`
      update end_users set issuer = ${to}, external_id = pair.subject, updated_at = now()
      from unnest(${plan.pairs.map(({ id }) => id)}::uuid[], ${plan.pairs.map(({ to }) => to)}::text[]) as pair (id, subject)
      where end_users.id = pair.id`
    await recordAudit(sql, trailOf(caller), 'end_users.carried_over', organizationId, {
      from_issuer,
      to_issuer: to,
      by,
      conflicts: plan.conflicts.length,
      end_user_ids: plan.pairs.map(({ id }) => id),
    })
    return { plan, departed }
  })
  announceAll(
    service.changes,
    [...departed, ...(is_preview ? [] : plan.pairs.map(({ id }) => id))].map((id) => topics.endUser(id)),
  )
  // Any node finishes those that are left.
  for (const id of departed.slice(0, 10)) await service.accessCleanup.finish(organizationId, id)
  const { pairs, conflicts, isComplete } = plan
  return {
    is_preview,
    to_issuer: to,
    carried_over: pairs.length,
    merged: pairs.filter(({ arrived }) => arrived !== undefined).length,
    conflict_count: conflicts.length,
    conflicts: conflicts.slice(0, shownConflicts),
    is_complete: isComplete,
  }
}

async function planByList(
  sql: Sql,
  from: string,
  to: string,
  users: readonly { from: string; to: string }[],
): Promise<Plan> {
  const [known, arrived] = await Promise.all([
    selectSubjects(
      sql,
      from,
      users.map((user) => user.from),
    ),
    selectSubjects(
      sql,
      to,
      users.map((user) => user.to),
    ),
  ])
  const isTwice = (side: 'from' | 'to') => {
    const counts = Map.groupBy(users, (user) => user[side])
    return (user: { from: string; to: string }) => (counts.get(user[side])?.length ?? 0) > 1
  }
  const [hasTwin, isTwin] = [isTwice('from'), isTwice('to')]
  const plan: Plan = { pairs: [], conflicts: [], isComplete: true }
  for (const user of users) {
    const id = known.get(user.from)
    if (hasTwin(user) || isTwin(user)) plan.conflicts.push({ external_id: user.from, reason: 'ambiguous' })
    else if (id === undefined) plan.conflicts.push({ external_id: user.from, reason: 'unknown' })
    else plan.pairs.push({ id, ...user, arrived: arrived.get(user.to) })
  }
  return plan
}

async function selectSubjects(sql: Sql, issuer: string, subjects: string[]): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; external_id: string }>`
    select id, external_id from end_users
    where issuer = ${issuer} and external_id = any(${subjects}) and preview_user_id is null and merged_into is null`
  return new Map(rows.map(({ id, external_id }) => [external_id, id]))
}

interface Addressed {
  id: string
  issuer: string
  external_id: string
  email_key: string
  metadata: string
}

/** Pairs end users whose address both providers have verified, and nobody else has at either of them. */
async function planByAddress(sql: Sql, from: string, to: string): Promise<Plan> {
  const plan: Plan = { pairs: [], conflicts: [], isComplete: false }
  let last = ''
  while (plan.pairs.length < mostPairs && !plan.isComplete) {
    const most = mostPairs - plan.pairs.length
    const addresses = await selectShared(sql, from, to, last, most)
    const people = await selectAddressed(sql, [from, to], addresses)
    for (const sharing of Map.groupBy(people, ({ email_key }) => email_key).values()) pairUp(plan, sharing, from)
    last = addresses.at(-1) ?? last
    plan.isComplete = addresses.length < most
  }
  return plan
}

/** Addresses that end users of both issuers have, in order. */
async function selectShared(sql: Sql, from: string, to: string, after: string, most: number): Promise<string[]> {
  const rows = await sql<{ email_key: string }>`
    select distinct former.email_key from end_users former
    join end_users arrived on arrived.email_key = former.email_key and arrived.issuer = ${to}
    where former.issuer = ${from} and former.email_key > ${after} and former.preview_user_id is null
      and former.merged_into is null and arrived.merged_into is null
    order by former.email_key limit ${most}`
  return rows.map(({ email_key }) => email_key)
}

const selectAddressed = (sql: Sql, issuers: string[], addresses: string[]) => sql<Addressed>`
  select id, issuer, external_id, email_key, metadata from end_users
  where email_key = any(${addresses}) and issuer = any(${issuers}) and preview_user_id is null and merged_into is null
  order by id`

function pairUp(plan: Plan, sharing: readonly Addressed[], from: string): void {
  const former = sharing.filter(({ issuer }) => issuer === from)
  const arrived = sharing.filter(({ issuer }) => issuer !== from)
  const [one, other] = [former[0], arrived[0]]
  if (!one || !other) return
  if (former.length > 1 || arrived.length > 1) {
    plan.conflicts.push(...former.map(({ external_id }) => ({ external_id, reason: 'ambiguous' as const })))
  } else if (!isVerified(one) || !isVerified(other)) {
    plan.conflicts.push({ external_id: one.external_id, reason: 'unverified' })
  } else plan.pairs.push({ id: one.id, from: one.external_id, to: other.external_id, arrived: other.id })
}

/** The metadata has the claims of the last ID token. */
const isVerified = ({ issuer, metadata }: Addressed): boolean => isEmailVerified(issuer, JSON.parse(metadata))

/**
 * Moves what end users have done since they came from the new provider. Accounts that they connected and budgets end.
 * Returns the IDs that lead to nobody from then on.
 */
async function moveToArrived(sql: Sql, pairs: readonly Pair[]): Promise<string[]> {
  const arrived = pairs.flatMap(({ id, arrived }) => (arrived === undefined ? [] : [{ id, arrived }]))
  const [kept, gone] = [arrived.map(({ id }) => id), arrived.map((pair) => pair.arrived)]
  if (gone.length === 0) return []
  // In the same order as the transactions of runs and erasures, so that they can't deadlock.
  await moveEndUserUsage(sql, gone, kept)
  await sql`select from threads where end_user_id = any(${gone}::uuid[]) order by id for no key update`
  await sql`
    update threads set end_user_id = pair.kept
    from unnest(${gone}::uuid[], ${kept}::uuid[]) as pair (gone, kept) where end_user_id = pair.gone`
  await sql`
    update tool_call_contents set end_user_id = pair.kept
    from unnest(${gone}::uuid[], ${kept}::uuid[]) as pair (gone, kept) where end_user_id = pair.gone`
  await sql`delete from end_user_consents where end_user_id = any(${gone}::uuid[])`
  await sql`delete from end_user_budgets where end_user_id = any(${gone}::uuid[])`
  await sql`
    update end_users set issuer = '', external_id = 'merged:' || id, email = '', metadata = '{}', merged_into = pair.kept
    from unnest(${gone}::uuid[], ${kept}::uuid[]) as pair (gone, kept) where id = pair.gone`
  await requestAccessCleanup(sql, gone)
  return gone
}
