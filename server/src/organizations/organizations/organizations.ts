import {
  type Caller,
  type CallingUser,
  type OrgCaller,
  trailOf,
  type UserCaller,
} from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { accessDenied, notFound } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { announceAll } from '../../kernel/stores/changes.ts'
import { isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { budgetExpiry, expireBudgetsEverySeconds } from '../../plans/budgets/expiry.ts'
import type * as contract from './contract.ts'

type Organization = Output<typeof contract.getOrganization>

/** The organizations that a user is a member of. A service account belongs to one. */
export async function listOrganizations(
  { database }: Service,
  { user, organization, role }: Pick<Caller, 'organization' | 'role'> & { user?: Pick<CallingUser, 'id'> | undefined },
): Promise<Output<typeof contract.listOrganizations>> {
  if (user) return database.asUser(user.id, (sql) => selectOrganizations(sql, user.id))
  if (!organization) return []
  return database.asOrg(
    organization.id,
    (sql) => sql<Organization>`
      select id, name, slug, avatar_url, ${role}::text as role, created_at, updated_at from organizations`,
  )
}

export async function getOrganization(
  service: Service,
  caller: Caller,
  { id }: Input<typeof contract.getOrganization>,
): Promise<Organization> {
  const found = (await listOrganizations(service, caller)).find((organization) => organization.id === id)
  if (!found) throw notFound('organization', id)
  return found
}

export async function getOrganizationBySlug(
  service: Service,
  caller: Caller,
  { slug }: Input<typeof contract.getOrganizationBySlug>,
): Promise<Organization> {
  const found = (await listOrganizations(service, caller)).find((organization) => organization.slug === slug)
  if (!found) throw notFound('organization', slug)
  return found
}

/** Users of an organization's own sign-in provider have issuers that start like this. */
const organizationIssuers = 'org:'

const ownOrganizationOnly =
  'Your account belongs to the organization whose sign-in provider you use, so it can’t create others. Sign in another way to create one.'

export async function createOrganization(
  service: Service,
  { user }: Pick<UserCaller, 'user'>,
  { name }: Input<typeof contract.createOrganization>,
): Promise<Organization> {
  const [account] = await service.database.asService(
    (sql) => sql<{ issuer: string }>`select issuer from users where id = ${user.id}`,
  )
  if (account?.issuer.startsWith(organizationIssuers)) throw accessDenied(ownOrganizationOnly)
  return foundOrganization(service, { name, founder: user })
}

export async function updateOrganization(
  { database, changes }: Service,
  caller: OrgCaller,
  { name }: Input<typeof contract.updateOrganization>,
): Promise<Organization> {
  const { organization, changed } = await database.asOrg(caller.organization.id, async (sql) => {
    const [before] = await sql<{ name: string }>`
      select name from organizations where id = current_organization() for no key update`
    const [organization] = await sql<Omit<Organization, 'role'>>`
      update organizations
      set name = ${name}, updated_at = case when name = ${name} then updated_at else now() end
      where id = current_organization() returning id, name, slug, avatar_url, created_at, updated_at`
    if (!before || !organization) throw notFound('organization', caller.organization.id)
    const members = await sql<{ user_id: string }>`
      select user_id from members where organization_id = (select current_organization())`
    const accounts = await sql<{ id: string }>`select id from service_accounts`
    const changed = [
      ...members.map(({ user_id }) => topics.user(user_id)),
      ...accounts.map(({ id }) => topics.serviceAccount(id)),
    ]
    if (before.name !== name)
      await recordAudit(sql, trailOf(caller), 'organization.renamed', organization.id, { from: before.name, to: name })
    return { organization, changed }
  })
  // Nodes cache the name with each caller.
  announceAll(changes, changed)
  return { ...organization, role: caller.role }
}

/** Creates an organization with its first admin. The operator can choose slug and plan; a chosen slug must be free. */
export async function foundOrganization(
  { database }: Pick<Service, 'database'>,
  wanted: { name: string; founder: { id: string; email: string }; slug?: string; planId?: string },
): Promise<Organization> {
  const { name, founder, planId = 'free' } = wanted
  const id = newId()
  for (let attempt = 1; ; attempt += 1) {
    const slug = wanted.slug ?? numbered(slugOf(name), attempt)
    try {
      return await database.asOrg(id, async (sql) => {
        const [organization] = await sql<Omit<Organization, 'role'>>`
          insert into organizations (id, name, slug, plan_id) values (${id}, ${name}, ${slug}, ${planId})
          returning id, name, slug, avatar_url, created_at, updated_at`
        await sql`insert into members (organization_id, id, user_id, role) values (${id}, ${newId()}, ${founder.id}, 'admin')`
        await requestJob(sql, budgetExpiry, { due: { inSeconds: expireBudgetsEverySeconds } })
        const trail = { organizationId: id, actor: founder.email, actorId: founder.id }
        await recordAudit(sql, trail, 'organization.created', id, { name, slug })
        return { ...organization, role: 'admin' } as Organization
      })
    } catch (error) {
      const isTaken = isUniqueViolation(error, 'organizations_slug_key')
      if (!isTaken || wanted.slug) throw error
    }
  }
}

const selectOrganizations = (sql: Sql, userId: string) => sql<Organization>`
  select o.id, o.name, o.slug, o.avatar_url, m.role, o.created_at, o.updated_at
  from members m join organizations o on o.id = m.organization_id
  where m.user_id = ${userId}
  order by o.name, o.id`

/** `Ärzte & Co. KG` → `arzte-co-kg`: ASCII letters, digits and hyphens, for use in URLs. */
export function slugOf(name: string): string {
  const plain = name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
  const slug = plain.replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '')
  return slug.slice(0, 48).replace(/-+$/, '') || 'organization'
}

/** The first attempt uses the plain slug, later ones a random suffix: counting up would collide again every time. */
const numbered = (slug: string, attempt: number) => (attempt === 1 ? slug : `${slug}-${newId().slice(-6)}`)
