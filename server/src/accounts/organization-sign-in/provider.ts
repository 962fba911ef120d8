import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { invalid } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { missingFeature, requireFeature } from '../../plans/plans/plans.ts'
import type * as contract from './contract.ts'
import { describeDomain, selectDomains } from './domain-checks.ts'
import { redirectUriOf } from './pages.ts'
import { announceEnded, endClosedWays, secretPlace } from './ways-in.ts'

type OrganizationSignIn = Output<typeof contract.getOrganizationSignIn>
type Provider = NonNullable<OrganizationSignIn['provider']>

export const getOrganizationSignIn = (service: Service, { organization }: OrgCaller): Promise<OrganizationSignIn> =>
  service.database.asOrg(organization.id, (sql) => describeOrganizationSignIn(service, sql, organization.id))

export async function setSignInProvider(
  service: Service,
  caller: OrgCaller,
  { issuer, client_id, client_secret, joins_on_first_sign_in }: Input<typeof contract.setSignInProvider>,
): Promise<OrganizationSignIn> {
  const { config, database, secrets } = service
  const { id } = caller.organization
  requireUsableIssuer(service, issuer)
  const sealed = client_secret ? secrets.seal(client_secret, secretPlace(id)) : null
  const last4 = client_secret?.slice(-4) ?? ''
  const keepsSecret = client_secret === undefined
  const { signIn, ended } = await database.asOrg(id, async (sql) => {
    await requireFeature(config.plans, sql, 'sso')
    // One statement, so that a stored secret is never combined with another issuer.
    const [changed] = await sql`
      insert into sign_in_providers as saved
        (organization_id, issuer, client_id, client_secret_sealed, client_secret_last4, joins_on_first_sign_in)
      values (current_organization(), ${issuer}, ${client_id}, ${sealed}, ${last4}, ${joins_on_first_sign_in ?? false})
      on conflict (organization_id) do update set
        issuer = excluded.issuer, client_id = excluded.client_id,
        client_secret_sealed = case when ${keepsSecret} then saved.client_secret_sealed else excluded.client_secret_sealed end,
        client_secret_last4 = case when ${keepsSecret} then saved.client_secret_last4 else excluded.client_secret_last4 end,
        joins_on_first_sign_in = coalesce(${joins_on_first_sign_in ?? null}, saved.joins_on_first_sign_in),
        updated_at = now()
      where not ${keepsSecret} or saved.client_secret_sealed is null or saved.issuer = excluded.issuer
      returning organization_id`
    if (!changed)
      throw invalid(
        'client_secret',
        'Enter the client secret again. The saved one is only sent to the issuer it was saved for.',
      )
    const secret = !keepsSecret && { client_secret: client_secret === null ? 'removed' : 'set' }
    const settings = { issuer, client_id, joins_on_first_sign_in, ...secret }
    await recordAudit(sql, trailOf(caller), 'sign_in_provider.updated', id, settings)
    const ended = await endClosedWays(sql, config.plans, trailOf(caller))
    return { ended, signIn: await describeOrganizationSignIn(service, sql, id) }
  })
  announceEnded(service, ended)
  return signIn
}

export async function deleteSignInProvider(
  service: Service,
  caller: OrgCaller,
): Promise<Output<typeof contract.deleteSignInProvider>> {
  const { id } = caller.organization
  const { signIn, ended } = await service.database.asOrg(id, async (sql) => {
    const [deleted] = await sql`delete from sign_in_providers returning organization_id`
    if (deleted) await recordAudit(sql, trailOf(caller), 'sign_in_provider.deleted', id)
    const ended = await endClosedWays(sql, service.config.plans, trailOf(caller))
    return { ended, signIn: await describeOrganizationSignIn(service, sql, id) }
  })
  announceEnded(service, ended)
  return signIn
}

function requireUsableIssuer({ config }: Service, issuer: string): void {
  const url = new URL(issuer)
  if (!/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash)
    throw invalid('issuer', 'Must be an https:// URL without user, query or fragment')
  if (url.protocol === 'http:' && config.mode === 'production') throw invalid('issuer', 'Must start with https://')
}

export async function describeOrganizationSignIn(
  service: Pick<Service, 'config'>,
  sql: Sql,
  organizationId: string,
): Promise<OrganizationSignIn> {
  const [provider] = await sql<Provider>`
    select issuer, client_id, client_secret_last4, joins_on_first_sign_in, created_at, updated_at from sign_in_providers`
  const domains = (await selectDomains(sql)).map(describeDomain)
  const reason =
    (await missingFeature(service.config.plans, sql, 'sso')) ??
    (provider ? null : 'No provider is set.') ??
    (domains.some(({ verified_at }) => verified_at !== null) ? null : 'No domain is verified.')
  return {
    is_active: reason === null,
    reason,
    redirect_uri: redirectUriOf(service, organizationId),
    provider: provider ?? null,
    domains,
  }
}
