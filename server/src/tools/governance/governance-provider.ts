import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { invalid } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import type * as contract from './contract.ts'
import { askInterceptor, type Connection, type Question } from './interceptor.ts'

type Provider = Output<typeof contract.getGovernanceProvider>
type Config = NonNullable<Provider['config']>

/** Associated data for sealing the key, so that its ciphertext can't be moved to another organization. */
const apiKeyPlace = (organizationId: string) => `governance_providers.api_key_sealed:${organizationId}`

export async function getGovernanceProvider({ database }: Service, { organization }: OrgCaller): Promise<Provider> {
  const [config] = await database.asOrg(organization.id, (sql) => selectConfig(sql))
  return describeIdentityProvider(config)
}

export async function updateGovernanceProvider(
  service: Service,
  caller: OrgCaller,
  { api_key, ...changes }: Input<typeof contract.updateGovernanceProvider>,
): Promise<Provider> {
  const { database, secrets } = service
  const { provider_key = null, interceptor_url = null, interceptor_name = null, is_enabled = null } = changes
  requireHttps(service, interceptor_url)
  const { id } = caller.organization
  const api_key_sealed = api_key ? secrets.seal(api_key, apiKeyPlace(id)) : null
  const api_key_last4 = api_key?.slice(-4) ?? null
  // Every URL starts with an empty string, so without a new URL the host check below passes.
  const origin = interceptor_url ? originOf(interceptor_url) : ''

  const [config] = await database.asOrg(id, async (sql) => {
    // One statement, so that concurrent changes aren't lost and a key is never combined with another host.
    const [changed] = await sql`
      insert into governance_providers as saved
        (organization_id, provider_key, interceptor_url, interceptor_name, api_key_sealed, api_key_last4, is_enabled)
      values (current_organization(), coalesce(${provider_key}, 'byo'), coalesce(${interceptor_url}, ''),
              coalesce(${interceptor_name}, ''), ${api_key_sealed}, coalesce(${api_key_last4}, ''),
              coalesce(${is_enabled}, false))
      on conflict (organization_id) do update set
        provider_key = coalesce(${provider_key}, saved.provider_key),
        interceptor_url = coalesce(${interceptor_url}, saved.interceptor_url),
        interceptor_name = coalesce(${interceptor_name}, saved.interceptor_name),
        api_key_sealed = coalesce(${api_key_sealed}, saved.api_key_sealed),
        api_key_last4 = coalesce(${api_key_last4}, saved.api_key_last4),
        is_enabled = coalesce(${is_enabled}, saved.is_enabled),
        last_test = case
          when ${interceptor_url} <> saved.interceptor_url or ${interceptor_name} <> saved.interceptor_name
            or ${api_key_sealed}::text is not null then null
          else saved.last_test end,
        updated_at = now()
      where ${api_key_sealed}::text is not null or saved.api_key_sealed is null
        or saved.interceptor_url = '' or starts_with(saved.interceptor_url, ${origin})
      returning organization_id`
    if (!changed) throw keyNeededAgain()
    const newKey = api_key && { api_key: 'set' }
    await recordAudit(sql, trailOf(caller), 'governance_provider.updated', id, { ...changes, ...newKey })
    return selectConfig(sql)
  })
  service.changes.announce(topics.governance(id))
  return describeIdentityProvider(config)
}

export async function clearGovernanceProvider(
  { database, changes }: Service,
  caller: OrgCaller,
): Promise<Output<typeof contract.clearGovernanceProvider>> {
  const { id } = caller.organization
  await database.asOrg(id, async (sql) => {
    const [cleared] = await sql`delete from governance_providers returning organization_id`
    if (cleared) await recordAudit(sql, trailOf(caller), 'governance_provider.cleared', id)
  })
  changes.announce(topics.governance(id))
  return describeIdentityProvider(undefined)
}

export async function testInterceptor(
  service: Service,
  caller: OrgCaller,
  overrides: Input<typeof contract.testInterceptor>,
): Promise<Output<typeof contract.testInterceptor>> {
  const { database, changes, clock } = service
  requireHttps(service, overrides.interceptor_url)
  const { id } = caller.organization
  const [saved] = await database.asOrg(id, (sql) => selectConnection(sql))
  const { api_key, api_key_sealed, ...shown } = completeConnection(service, id, saved, overrides)
  const outcome = await askInterceptor(service, { ...shown, api_key }, sampleQuestion(service, caller))

  const { status, message } = outcome
  const last_test = JSON.stringify({ status, message, at: new Date(clock()).toISOString() })
  const [remembered] = await database.asOrg(id, async (sql) => {
    // Saves the result only if the tested connection is still the saved one.
    const rows = await sql`
      update governance_providers set last_test = ${last_test}
      where provider_key = ${shown.provider_key} and interceptor_url = ${shown.interceptor_url}
        and interceptor_name = ${shown.interceptor_name} and api_key_sealed = ${api_key_sealed}
      returning organization_id`
    if (rows[0]) await recordAudit(sql, trailOf(caller), 'governance_provider.tested', id, { status })
    return rows
  })
  if (remembered) changes.announce(topics.governance(id))
  return { ...shown, ...outcome }
}

interface SavedConnection extends Pick<Config, 'provider_key' | 'interceptor_url' | 'interceptor_name'> {
  api_key_sealed: string | null
}

/** Merges the overrides into the saved connection and decrypts the key, which is never used for another host. */
function completeConnection(
  { secrets }: Service,
  organizationId: string,
  saved: SavedConnection | undefined,
  overrides: Input<typeof contract.testInterceptor>,
) {
  const { provider_key = 'byo', interceptor_url = '', interceptor_name = '' } = { ...saved, ...overrides }
  if (!interceptor_url) throw invalid('interceptor_url', 'Required, because none is saved')
  if (!interceptor_name) throw invalid('interceptor_name', 'Required, because none is saved')
  const connection = { provider_key, interceptor_url, interceptor_name }
  if (overrides.api_key) return { ...connection, api_key: overrides.api_key, api_key_sealed: null }
  if (!saved?.api_key_sealed) throw invalid('api_key', 'Required, because none is saved')
  if (!saved.interceptor_url.startsWith(originOf(interceptor_url))) throw keyNeededAgain()
  const { api_key_sealed } = saved
  return { ...connection, api_key: secrets.open(api_key_sealed, apiKeyPlace(organizationId)), api_key_sealed }
}

/**
 * The interceptor that decides on an organization's tool calls; undefined if none is enabled. If its configuration is
 * incomplete, `gap` explains what's missing. An interceptor whose last test failed is still asked.
 */
export async function findInterceptor(
  { database, secrets }: Pick<Service, 'database' | 'secrets'>,
  organizationId: string,
): Promise<Connection | { gap: string } | undefined> {
  const [[config], [saved]] = await database.asOrg(organizationId, async (sql) => [
    await selectConfig(sql),
    await selectConnection(sql),
  ])
  if (!config?.is_enabled) return undefined
  const gap = describeGap(config)
  if (gap || !saved?.api_key_sealed) return { gap: gap ?? '' }
  const { interceptor_url, interceptor_name, api_key_sealed } = saved
  return { interceptor_url, interceptor_name, api_key: secrets.open(api_key_sealed, apiKeyPlace(organizationId)) }
}

const sampleQuestion = ({ config }: Service, { organization, actor }: OrgCaller): Question => ({
  phase: 'request',
  context: {
    mcp_call_id: newId(),
    organization_id: organization.id,
    caller_identity: actor,
    source: { tabId: 'test', origin: config.publicUrl, url: `${config.publicUrl}/`, title: 'Connection test' },
    tool: 'echo',
    arguments: { message: 'Connection test' },
  },
})

/** Ends with a slash, so that it isn't a prefix of a longer hostname. */
const originOf = (url: string) => `${new URL(url).origin}/`

const keyNeededAgain = () =>
  invalid('api_key', 'Enter the API key again. The saved key is only sent to the host it was saved for.')

/** In development, safe-fetch allows plain http to the networks that the operator has allowed. */
function requireHttps({ config }: Service, url: string | null | undefined): void {
  if (config.mode === 'production' && url?.startsWith('http:')) {
    throw invalid('interceptor_url', 'Must start with https://')
  }
}

function describeIdentityProvider(config: Config | undefined): Provider {
  return { ...judge(config), config: config ?? null }
}

function describeGap({ interceptor_url, interceptor_name, has_api_key }: Config): string | undefined {
  const missing = [
    interceptor_url ? [] : 'interceptor_url',
    interceptor_name ? [] : 'interceptor_name',
    has_api_key ? [] : 'api_key',
  ].flat()
  return missing.length > 0 ? `The governance provider is incomplete. Missing: ${missing.join(', ')}.` : undefined
}

function judge(config: Config | undefined): Pick<Provider, 'effective_status' | 'reason'> {
  if (!config) {
    return {
      effective_status: 'bypassed',
      reason: 'No governance provider is configured, so tool calls aren’t checked.',
    }
  }
  if (!config.is_enabled) {
    return {
      effective_status: 'bypassed',
      reason: 'The governance provider is disabled, so tool calls aren’t checked.',
    }
  }
  const incomplete = describeGap(config)
  if (incomplete) return { effective_status: 'misconfigured', reason: incomplete }
  if (config.last_test_status === 'failure') {
    return { effective_status: 'misconfigured', reason: `The last test failed: ${config.last_test_message}` }
  }
  return { effective_status: 'active', reason: 'The governance provider checks every tool call.' }
}

const selectConfig = (sql: Sql) => sql<Config>`
  select provider_key, interceptor_url, interceptor_name, api_key_last4, api_key_sealed is not null as has_api_key,
         is_enabled, coalesce(last_test ->> 'status', '') as last_test_status,
         coalesce(last_test ->> 'message', '') as last_test_message, last_test ->> 'at' as last_test_at,
         created_at, updated_at
  from governance_providers`

const selectConnection = (sql: Sql) => sql<SavedConnection>`
  select provider_key, interceptor_url, interceptor_name, api_key_sealed from governance_providers`
