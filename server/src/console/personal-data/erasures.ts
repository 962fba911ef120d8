import { endUsersOf } from '../../accounts/organization-sign-in/ways-in.ts'
import type { Runs } from '../../agent/runs/runs.ts'
import { type MemberCaller, trailOf, type UserCaller } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { JobKind, Jobs } from '../../kernel/jobs/jobs.ts'
import { requestOwnJob } from '../../kernel/jobs/requests.ts'
import { fail, invalid, notFound } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { recordAudit, requireRole } from '../../kernel/stores/audit/audit.ts'
import { announceAll } from '../../kernel/stores/changes.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import {
  type AccessCleanup,
  requestAccessCleanup,
  selectAccessCleanups,
} from '../../organizations/access-cleanup/access-cleanup.ts'
import { dropMailAbout } from '../../organizations/mail/outbox.ts'
import { directoryIssuer, lockMembers } from '../../organizations/organizations/members.ts'
import type { Billing } from '../../plans/subscriptions/billing-provider.ts'
import { hasRenewal } from '../../plans/subscriptions/subscriptions.ts'
import type * as contract from './contract.ts'
import { deletionErrors } from './contract.ts'

type Erasure = Output<typeof contract.getOrganizationErasure>

/** Erases deleted organizations, also after crashes and while a store is unreachable. */
export interface Erasures {
  /** Resolves when the organization is erased, or after a few seconds: the work continues. Never fails. */
  run(erasureId: string): Promise<void>
  kind: JobKind
}

/** The key is the ID of the erasure. The job belongs to no organization, so that it outlives the organization's rows. */
export const organizationErasure = 'organization_erasure'
const waitMs = 5_000
const dayMs = 24 * 60 * 60_000

type Needs = Service & { accessCleanup: AccessCleanup; runs: Runs; jobs: Jobs }

export const createErasures = (service: Needs): Erasures => ({
  async run(erasureId) {
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, waitMs)
    await Promise.race([service.jobs.run({ kind: organizationErasure, key: erasureId }), late])
    clearTimeout(timer)
  },
  kind: {
    name: organizationErasure,
    atOnce: 2,
    longestMs: dayMs,
    retryWithinSeconds: 30,
    async run(job) {
      const [pending] = await job.transaction(
        (sql) => sql<{ id: string }>`
          select pending_id as id from organization_erasures where id = ${job.key} and pending_id is not null`,
      )
      if (pending) await eraseOrganization(service, job.key, pending.id, job.signal)
      return job.settle(async (sql) => {
        await sql`
          update organization_erasures set pending_id = null, finished_at = now()
          where id = ${job.key} and pending_id is not null`
        return 'done'
      })
    },
  },
})

/** Each step can be repeated. The erasure stays pending until the last one has succeeded. */
async function eraseOrganization(
  service: Needs,
  erasureId: string,
  organizationId: string,
  signal: AbortSignal,
): Promise<void> {
  const { database, accessCleanup, eraseTenant, kv, runs } = service
  await runs.endAccess(organizationId)
  // Third parties revoke the tokens of those who connected an account. This needs the connectors' rows.
  const people = await database.asOrg(organizationId, async (sql) => {
    const left = await selectAccessCleanups(sql)
    await requestAccessCleanup(sql, left)
    return left
  })
  for (const personId of people) {
    signal.throwIfAborted()
    await accessCleanup.finish(organizationId, personId)
  }
  const unfinished = await database.asOrg(organizationId, selectAccessCleanups)
  if (unfinished.length > 0) throw new Error('The tokens of some users couldn’t be deleted and revoked yet')
  // A directory's request that was under way may have added accounts.
  await database.asOrg(organizationId, deleteDirectoryAccounts)
  await deleteProviderAccounts(service, organizationId, signal)
  const isErased = await eraseTenant({ erasureId, organizationId, signal })
  if (!isErased) throw new Error('A node that lost the erasure is still working on it')
  await kv.deleteContaining(organizationId)
}

/**
 * Deletes the accounts of users who signed in at the organization's own provider, because nobody can sign in to them any
 * more. Their memberships in other organizations end as any other.
 */
async function deleteProviderAccounts(
  { database, accessCleanup }: Service & { accessCleanup: AccessCleanup },
  organizationId: string,
  signal: AbortSignal,
): Promise<void> {
  const accounts = await database.asService(
    (sql) => sql<{ id: string; email: string }>`
      select id, email from users where issuer like 'org:%' and split_part(issuer, ':', 2) = ${organizationId} order by id`,
  )
  for (const { id, email } of accounts) {
    signal.throwIfAborted()
    const places = await database.asUser(
      id,
      (sql) => sql<{ organization_id: string }>`select organization_id from members where user_id = ${id}`,
    )
    for (const { organization_id: elsewhere } of places) {
      await database.asOrg(elsewhere, async (sql) => {
        await lockMembers(sql)
        const [gone] = await sql<{
          id: string
          role: string
        }>`delete from members where user_id = ${id} returning id, role`
        if (!gone) return
        await requestAccessCleanup(sql, [id])
        const trail = { organizationId: elsewhere, actor: 'inlay' }
        await recordAudit(sql, trail, 'member.removed', gone.id, { email, role: gone.role })
      })
      await accessCleanup.finish(elsewhere, id)
    }
    await database.asService((sql) => sql`delete from users where id = ${id}`)
  }
}

export async function deleteOrganization(
  service: Service & Billing & { erasures: Erasures },
  caller: MemberCaller,
  { slug }: Input<typeof contract.deleteOrganization>,
): Promise<Erasure> {
  const { changes, database, erasures, log } = service
  const organizationId = caller.organization.id
  if (slug !== caller.organization.slug)
    throw invalid('slug', `Must be the slug of the organization, ${caller.organization.slug}, to confirm the deletion`)
  if (await hasRenewal(service, organizationId)) throw fail(deletionErrors.SUBSCRIPTION_RENEWS, 'SUBSCRIPTION_RENEWS')
  const { erasureId, deleted, revokedKeys, signedOut } = await database.asOrg(organizationId, async (sql) => {
    await sql`select from organizations where id = current_organization() for update`
    // Another admin may have deleted the organization in the meantime.
    await requireRole(sql, caller)
    const id = newId()
    const { deleted, revokedKeys } = await endAllAccess(sql)
    const signedOut = await endUsersOf(sql, organizationId)
    const counts = Object.fromEntries(Object.entries(deleted).map(([table, rows]) => [table, rows.length]))
    await sql`
      insert into organization_erasures (id, organization_hash, pending_id, requested_by, counts)
      values (${id}, ${fingerprint(organizationId)}, ${organizationId}, ${caller.user.id}, ${JSON.stringify(counts)})`
    await requestOwnJob(sql, organizationErasure, id)
    await recordAudit(sql, trailOf(caller), 'organization.deleted', organizationId, { slug })
    return { erasureId: id, deleted, revokedKeys, signedOut }
  })
  const ofOrganization = [
    topics.identityProvider,
    topics.connectors,
    topics.governance,
    topics.agentSettings,
    topics.toolCallSettings,
  ]
  const changed = [
    ...revokedKeys.map(({ id }) => topics.key(id)),
    ...deleted.service_accounts.map(({ id }) => topics.serviceAccount(id)),
    ...[...deleted.members, ...deleted.users].map(({ id }) => topics.user(id)),
    ...signedOut.map(topics.user),
    ...ofOrganization.map((topic) => topic(organizationId)),
  ]
  announceAll(changes, changed)
  log.info({ organization: organizationId, erasure: erasureId }, 'An administrator deleted an organization')
  await erasures.run(erasureId)
  return readErasure(service, caller.user.id, erasureId)
}

/**
 * Deletes everything that gives access, and returns what was deleted by table. Keys are only revoked, because other rows
 * refer to them. Invitations come before members, because they can become members.
 */
async function endAllAccess(sql: Sql) {
  const [invitations, directoryTokens, serviceAccounts, signInProviders, revokedKeys] = await Promise.all([
    sql<Ended>`delete from invitations returning id`,
    sql<Ended>`delete from directory_tokens returning id`,
    sql<Ended>`delete from service_accounts returning id`,
    sql<Ended>`delete from sign_in_providers returning organization_id as id`,
    sql<Ended>`update publishable_keys set revoked_at = coalesce(revoked_at, now()) returning id`,
  ])
  await dropMailAbout(
    sql,
    invitations.map(({ id }) => id),
  )
  const people = await sql<{ id: string }>`
    select user_id as id from members union select end_user_id as id from end_user_consents`
  await requestAccessCleanup(
    sql,
    people.map(({ id }) => id),
  )
  const users = await deleteDirectoryAccounts(sql)
  const members = await sql<Ended>`delete from members returning user_id as id`
  return {
    deleted: {
      invitations,
      directory_tokens: directoryTokens,
      service_accounts: serviceAccounts,
      sign_in_providers: signInProviders,
      users,
      members,
    },
    revokedKeys,
  }
}

type Ended = { id: string }

/** Accounts of users who never signed in belong to the directory that created them. Their memberships go with them. */
const deleteDirectoryAccounts = (sql: Sql) => sql<Ended>`
  delete from users where issuer = ${directoryIssuer} and id in (select user_id from members) returning id`

export const getOrganizationErasure = (
  service: Service,
  { user }: UserCaller,
  { id }: Input<typeof contract.getOrganizationErasure>,
): Promise<Erasure> => readErasure(service, user.id, id)

async function readErasure({ database }: Service, userId: string, id: string): Promise<Erasure> {
  const [erasure] = await database.asService(
    (sql) => sql<Erasure>`
      select id, organization_hash, counts, requested_at, finished_at from organization_erasures
      where id = ${id} and requested_by = ${userId}`,
  )
  if (!erasure) throw notFound('organization_erasure', id)
  return erasure
}
