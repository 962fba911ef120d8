import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { invalid } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { settleSites } from '../sites/sites.ts'
import type * as contract from './contract.ts'
import { providerTestSteps } from './contract.ts'
import { DiscoveryFailed, discover, discoveryUrl } from './discovery.ts'
import { fetchSigningKeys } from './issuer-keys.ts'
import {
  findTrustedIssuer,
  type IdentityProviderSettings,
  IncompleteIdentityProvider,
  InvalidIdentityProvider,
  type TrustedIssuer,
  trustedIssuer,
} from './issuers.ts'

export type IdentityProviderConfig = Output<typeof contract.getConfig>

export async function getConfig({ database }: Service, { organization }: OrgCaller): Promise<IdentityProviderConfig> {
  return database.asOrg(organization.id, readIdentityProvider)
}

/**
 * Changes only the given fields in one statement, so concurrent updates of different fields don't overwrite each other.
 */
export async function updateConfig(
  service: Service,
  caller: OrgCaller,
  changes: Input<typeof contract.updateConfig>,
): Promise<IdentityProviderConfig> {
  const has = (field: keyof typeof changes) => changes[field] !== undefined
  const config = await service.database.asOrg(caller.organization.id, async (sql) => {
    await sql`insert into identity_providers (organization_id) values (current_organization()) on conflict do nothing`
    await sql`
      update identity_providers set
        idp_type = case when ${has('idp_type')} then ${changes.idp_type ?? null} else idp_type end,
        allowed_audiences = case when ${has('allowed_audiences')} then ${changes.allowed_audiences ?? null} else allowed_audiences end,
        idp_domain = case when ${has('idp_domain')} then ${changes.idp_domain ?? null} else idp_domain end,
        idp_issuer = case when ${has('idp_issuer')} then ${changes.idp_issuer ?? null} else idp_issuer end,
        allowed_domains = coalesce(${changes.allowed_domains ?? null}, allowed_domains),
        updated_at = now()`
    const updated = await readIdentityProvider(sql)
    requireUsable(updated, service.config.mode)
    await forgetOtherIssuers(sql, findTrustedIssuer(updated, service.config.mode)?.issuer)
    if (changes.allowed_domains) await settleSites(service.config.plans, sql)
    await recordAudit(sql, trailOf(caller), 'identity_provider.updated', caller.organization.id, changes)
    return updated
  })
  service.changes.announce(topics.identityProvider(caller.organization.id))
  return config
}

export async function testProvider(
  service: Service,
  { role }: OrgCaller,
  { idp_type, idp_domain = null, idp_issuer = null, allowed_audiences = null }: Input<typeof contract.testProvider>,
): Promise<Output<typeof contract.testProvider>> {
  try {
    const trusted = trustedIssuer({ idp_type, idp_domain, idp_issuer, allowed_audiences }, service.config.mode)
    if (!trusted) throw new InvalidIdentityProvider('idp_type', 'Choose a provider')
    return await tryProvider({ ...service, fetch: role === 'admin' ? service.fetch : service.publicFetch }, trusted)
  } catch (error) {
    if (error instanceof InvalidIdentityProvider) throw invalid(error.field, error.message)
    throw error
  }
}

type TestStep = (typeof providerTestSteps)[number]
/** What the steps that succeed have found. */
type Found = Partial<Record<TestStep, string>>

async function tryProvider(
  service: Pick<Service, 'fetch'>,
  trusted: TrustedIssuer,
): Promise<Output<typeof contract.testProvider>> {
  const found: Found = { discovery: discoveryUrl(trusted), issuer: trusted.issuer }
  const document = await discover(service, trusted).catch(expectFailure)
  if (document instanceof DiscoveryFailed) {
    const steps = listSteps(found, { step: stepOf(document), message: document.message })
    return { success: false, issuer: null, jwks_uri: null, error: document.message, steps }
  }
  const { issuer, jwks_uri } = document
  Object.assign(found, { issuer, endpoints: jwks_uri })
  const keys = await readKeys(service, jwks_uri).catch(expectFailure)
  const steps =
    keys instanceof DiscoveryFailed
      ? listSteps(found, { step: 'keys', message: keys.message })
      : listSteps({ ...found, keys })
  return { success: true, issuer, jwks_uri, error: null, steps }
}

function expectFailure(error: unknown): DiscoveryFailed {
  if (error instanceof DiscoveryFailed) return error
  throw error
}

/** Every other problem is about getting the document. */
const stepOf = ({ step }: DiscoveryFailed): TestStep =>
  step === 'issuer_mismatch' ? 'issuer' : step === 'no_jwks_uri' || step === 'endpoint' ? 'endpoints' : 'discovery'

/** Says which keys there are. */
async function readKeys(service: Pick<Service, 'fetch'>, jwks_uri: string): Promise<string> {
  const keys = await fetchSigningKeys(service, jwks_uri)
  if (keys.length === 0) throw new DiscoveryFailed('no_keys', `${jwks_uri} has no key that can sign ID tokens`)
  const types = [...new Set(keys.map(({ kty }) => kty))].join(', ')
  return `${keys.length} ${keys.length === 1 ? 'signing key' : 'signing keys'} (${types})`
}

/** All steps in order: those before the failed one have succeeded, and those after it were skipped. */
function listSteps(found: Found, failed?: { step: TestStep; message: string }) {
  const end = failed ? providerTestSteps.indexOf(failed.step) : providerTestSteps.length
  return providerTestSteps.map((step, at) => {
    if (at < end) return { step, status: 'ok' as const, message: found[step] ?? '' }
    if (at === end) return { step, status: 'failed' as const, message: failed?.message ?? '' }
    return { step, status: 'skipped' as const, message: '' }
  })
}

export async function getAllowedDomains(
  service: Service,
  caller: OrgCaller,
): Promise<Output<typeof contract.getAllowedDomains>> {
  const { allowed_domains } = await getConfig(service, caller)
  return { allowed_domains }
}

export async function setAllowedDomains(
  service: Service,
  caller: OrgCaller,
  { allowed_domains }: Input<typeof contract.setAllowedDomains>,
): Promise<Output<typeof contract.setAllowedDomains>> {
  const updated = await updateConfig(service, caller, { allowed_domains })
  return { allowed_domains: updated.allowed_domains }
}

const browsersAtOnce = 5_000

/** Users of another provider haven't confirmed their browsers. In batches, because statements time out. */
async function forgetOtherIssuers(sql: Sql, issuer: string | undefined): Promise<void> {
  for (let last: string | null = '00000000-0000-0000-0000-000000000000'; last !== null; ) {
    const after: string = last
    const [walked] = await sql<{ last: string | null }>`
      with walked as materialized (
        select id from confirmed_browsers where id > ${after} order by id limit ${browsersAtOnce}
      ), forgotten as (
        delete from confirmed_browsers where id = any(array(select id from walked))
          and issuer is distinct from ${issuer ?? null}
      )
      select (select id from walked order by id offset ${browsersAtOnce - 1}) as last`
    last = walked?.last ?? null
  }
}

/** Returns empty settings if the organization has configured nothing. */
export async function readIdentityProvider(sql: Sql): Promise<IdentityProviderConfig> {
  const [config] = await sql<IdentityProviderConfig>`
    select idp_type, allowed_audiences, idp_domain, idp_issuer, allowed_domains from identity_providers`
  return config ?? { idp_type: null, allowed_audiences: null, idp_domain: null, idp_issuer: null, allowed_domains: [] }
}

/**
 * Rejects settings that could never verify a token, before the first user finds out. Incomplete settings are accepted.
 */
function requireUsable(settings: IdentityProviderSettings, mode: 'development' | 'production'): void {
  try {
    trustedIssuer(settings, mode)
  } catch (error) {
    if (error instanceof IncompleteIdentityProvider) return
    throw error instanceof InvalidIdentityProvider ? invalid(error.field, error.message) : error
  }
}
