import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { duplicate, invalid, notFound } from '../../kernel/lib/errors.ts'
import { newId, randomText } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { requireFeature } from '../../plans/plans/plans.ts'
import type * as contract from './contract.ts'
import {
  checkDomain,
  type DomainRow,
  describeDomain,
  releaseLostDomain,
  requestCheck,
  selectDomains,
} from './domain-checks.ts'
import { describeOrganizationSignIn } from './provider.ts'
import { announceEnded, endClosedWays, openProvider } from './ways-in.ts'

type SignInDomain = Output<typeof contract.verifySignInDomain>

const mostDomains = 20

export async function addSignInDomain(
  { config, database }: Service,
  caller: OrgCaller,
  { domain }: Input<typeof contract.addSignInDomain>,
): Promise<SignInDomain> {
  return database.asOrg(caller.organization.id, async (sql) => {
    await requireFeature(config.plans, sql, 'sso')
    // Serializes concurrent requests, so that they can't exceed the limit together.
    await sql`select from organizations where id = current_organization() for no key update`
    const known = await selectDomains(sql)
    if (known.some((row) => row.domain === domain)) throw duplicate('sign_in_domain')
    if (known.length >= mostDomains)
      throw invalid('domain', `An organization has at most ${mostDomains} domains. Remove one first.`)
    const id = newId()
    await sql`
      insert into sign_in_domains (organization_id, id, domain, token)
      values (current_organization(), ${id},  ${domain}, ${randomText(32)})`
    const row = await readDomain(sql, id)
    await recordAudit(sql, trailOf(caller), 'sign_in_domain.added', id, { domain })
    return describeDomain(row)
  })
}

export async function verifySignInDomain(
  service: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.verifySignInDomain>,
): Promise<SignInDomain> {
  const { config, database } = service
  const organizationId = caller.organization.id
  const before = await database.asOrg(organizationId, async (sql) => {
    await requireFeature(config.plans, sql, 'sso')
    return readDomain(sql, id)
  })
  const check = await checkDomain(service, before)
  // The domain may have another owner now: then the record of the organization that had it is gone.
  if (check.is === 'found') await releaseLostDomain(service, before.domain, organizationId)
  try {
    return await database.asOrg(organizationId, async (sql) => {
      const isFound = check.is === 'found'
      // A verified domain whose record is missing only expires in the daily check.
      await sql`
        update sign_in_domains
        set checked_at = now(), problem = ${isFound ? null : check.problem},
            verified_at = case when ${isFound} then coalesce(verified_at, now()) else verified_at end,
            missing_since = case when ${isFound} or verified_at is null then null when ${check.is === 'missing'}
                                 then coalesce(missing_since, now()) else missing_since end
        where id = ${id}`
      const row = await readDomain(sql, id)
      if (before.verified_at === null && row.verified_at !== null) {
        await openProvider(sql)
        await requestCheck(sql, id)
        await recordAudit(sql, trailOf(caller), 'sign_in_domain.verified', id, { domain: row.domain })
      }
      return describeDomain(row)
    })
  } catch (error) {
    throw isUniqueViolation(error, 'sign_in_domains_verified') ? duplicate('sign_in_domain') : error
  }
}

export async function removeSignInDomain(
  service: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.removeSignInDomain>,
): Promise<Output<typeof contract.removeSignInDomain>> {
  const organizationId = caller.organization.id
  const { signIn, ended } = await service.database.asOrg(organizationId, async (sql) => {
    const { domain } = await readDomain(sql, id)
    await sql`delete from sign_in_domains where id = ${id}`
    const ended = await endClosedWays(sql, service.config.plans, trailOf(caller))
    await recordAudit(sql, trailOf(caller), 'sign_in_domain.removed', id, { domain })
    return { ended, signIn: await describeOrganizationSignIn(service, sql, organizationId) }
  })
  announceEnded(service, ended)
  return signIn
}

async function readDomain(sql: Sql, id: string): Promise<DomainRow> {
  const row = (await selectDomains(sql)).find((one) => one.id === id)
  if (!row) throw notFound('sign_in_domain', id)
  return row
}
