import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { duplicate, invalid, notFound } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { readIdentityProvider } from '../../visitors/identity-provider/identity-provider.ts'
import { findTrustedIssuer, type TrustedIssuer } from '../../visitors/identity-provider/issuers.ts'
import type * as contract from './contract.ts'
import { StepFailed } from './steps.ts'

interface Client {
  id: string
  secret: string
}

/** A connector with decrypted secrets, only for the duration of a request. */
export interface OpenConnector {
  server_url: string
  audience_mode: 'resource' | 'issuer'
  scopes: readonly string[]
  /** Inlay's client at the tool server. */
  client: Client
  /** Inlay's client at the identity provider. */
  idpClient: Client
}

export type Connector = Output<typeof contract.getConnector>

/** A connector with its encrypted secrets. */
export interface StoredConnector extends Connector {
  client_secret_sealed: string | null
  idp_client_secret_sealed: string | null
  /** The issuer that the secret for the identity provider was entered for. */
  idp_issuer: string | null
}

/** Limited because listing tools sends a request to every connector. */
const mostConnectors = 50

const secretPlace = (id: string) => `connectors.client_secret_sealed:${id}`
const idpSecretPlace = (id: string) => `connectors.idp_client_secret_sealed:${id}`

export async function listConnectors(
  { database }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.listConnectors>> {
  return { connectors: await database.asOrg(organization.id, (sql) => selectConnectors(sql)) }
}

export async function getConnector(
  { database }: Service,
  { organization }: OrgCaller,
  { id }: Input<typeof contract.getConnector>,
): Promise<Connector> {
  return database.asOrg(organization.id, (sql) => selectConnector(sql, id))
}

export async function createConnector(
  service: Service,
  caller: OrgCaller,
  { client_secret, idp_client_secret, ...given }: Input<typeof contract.createConnector>,
): Promise<Connector> {
  const { name, kind, server_url, client_id, idp_client_id, audience_mode, read_only_tools = [] } = given
  const scopes = given.scopes ?? (kind === 'id_jag' ? ['mcp:tools:read', 'mcp:tools:call'] : [])
  requireHttps(service, server_url)
  const id = newId()
  const secret = sealSecret(service, client_secret, secretPlace(id))
  const idpSecret = sealSecret(service, idp_client_secret, idpSecretPlace(id))
  return changeConnectors(service, caller, async (sql) => {
    // Serializes concurrent creations, so that the limit holds exactly.
    await sql`select from organizations where id = current_organization() for no key update`
    const [row] = await sql<{ count: number }>`select count(*) as count from connectors`
    if ((row?.count ?? 0) >= mostConnectors)
      throw invalid('', `An organization can have at most ${mostConnectors} connectors`)
    const idpIssuer = kind === 'id_jag' ? await selectIssuer(service, sql) : null
    await sql`
      insert into connectors (organization_id, id, name, kind, server_url, client_id, client_secret_sealed,
        client_secret_last4, idp_client_id, idp_client_secret_sealed, idp_client_secret_last4, scopes, audience_mode, read_only_tools,
        status, idp_issuer)
      values (current_organization(), ${id}, ${name}, ${kind}, ${server_url}, ${client_id ?? null}, ${secret.sealed},
        ${secret.last4}, ${idp_client_id ?? null}, ${idpSecret.sealed}, ${idpSecret.last4}, ${scopes}, ${audience_mode},
        ${read_only_tools}, 'active', ${idpIssuer})`
    await recordAudit(sql, trailOf(caller), 'connector.created', id, { ...given, scopes })
    return selectConnector(sql, id)
  })
}

export async function updateConnector(
  service: Service,
  caller: OrgCaller,
  { id, client_secret, idp_client_secret, ...changes }: Input<typeof contract.updateConnector>,
): Promise<Connector> {
  const { name = null, scopes = null, audience_mode = null, read_only_tools = null, status = null } = changes
  const secret = sealSecret(service, client_secret, secretPlace(id))
  const idpSecret = sealSecret(service, idp_client_secret, idpSecretPlace(id))
  return changeConnectors(service, caller, async (sql) => {
    const { kind, client_id, idp_client_id } = await selectConnector(sql, id)
    if (client_secret && !client_id) throw noClient('client_secret')
    if (idp_client_secret && !idp_client_id) throw noClient('idp_client_secret')
    if (kind === 'id_jag' && scopes?.length === 0) throw invalid('scopes', 'Must have at least one scope')
    const isForProvider =
      kind === 'id_jag' && (idp_client_id === null ? client_secret : idp_client_secret) !== undefined
    const idpIssuer = isForProvider ? await selectIssuer(service, sql) : null
    await sql`
      update connectors set
        idp_issuer = case when ${isForProvider} then ${idpIssuer} else idp_issuer end,
        name = coalesce(${name}, name),
        client_secret_sealed = coalesce(${secret.sealed}, client_secret_sealed),
        client_secret_last4 = coalesce(${secret.last4}, client_secret_last4),
        idp_client_secret_sealed = coalesce(${idpSecret.sealed}, idp_client_secret_sealed),
        idp_client_secret_last4 = coalesce(${idpSecret.last4}, idp_client_secret_last4),
        scopes = coalesce(${scopes}, scopes),
        audience_mode = coalesce(${audience_mode}, audience_mode),
        read_only_tools = coalesce(${read_only_tools}, read_only_tools),
        status = coalesce(${status}, status),
        updated_at = now()
      where id = ${id}`
    const newSecrets = {
      ...(client_secret && { client_secret: 'set' }),
      ...(idp_client_secret && { idp_client_secret: 'set' }),
    }
    await recordAudit(sql, trailOf(caller), 'connector.updated', id, { ...changes, ...newSecrets })
    return selectConnector(sql, id)
  })
}

/** Reports a duplicate name as a conflict, and makes all nodes drop their caches afterwards. */
export async function changeConnectors<T>(
  { database, changes }: Service,
  { organization }: OrgCaller,
  work: (sql: Sql) => Promise<T>,
): Promise<T> {
  const result = await database.asOrg(organization.id, work).catch((error) => {
    throw isUniqueViolation(error, 'connectors_name') ? duplicate('connector') : error
  })
  changes.announce(topics.connectors(organization.id))
  return result
}

const noClient = (field: string) => invalid(field, 'The connector has no client ID for this secret')

/** Only development allows http, for which safe-fetch still checks the allowed networks. */
function requireHttps({ config }: Service, url: string): void {
  if (config.mode === 'production' && url.startsWith('http:')) throw invalid('server_url', 'Must start with https://')
}

function sealSecret({ secrets }: Service, secret: string | undefined, place: string) {
  return { sealed: secret ? secrets.seal(secret, place) : null, last4: secret?.slice(-4) ?? null }
}

/** Decrypts the client secret for the tool server. */
export const openSecret = (
  { secrets }: Pick<Service, 'secrets'>,
  { id, client_secret_sealed }: StoredConnector,
): string | undefined =>
  client_secret_sealed === null ? undefined : secrets.open(client_secret_sealed, secretPlace(id))

/** The issuer that a secret for the identity provider is entered for: the one that is configured at that moment. */
async function selectIssuer({ config }: Pick<Service, 'config'>, sql: Sql): Promise<string | null> {
  return findTrustedIssuer(await readIdentityProvider(sql), config.mode)?.issuer ?? null
}

/**
 * Decrypts all secrets of an `id_jag` connector. Fails if the secret for the identity provider was entered for another
 * one: a provider must never get a secret that an administrator entered for the one before it.
 */
export function openConnector(
  service: Pick<Service, 'secrets'>,
  connector: StoredConnector,
  { issuer }: TrustedIssuer,
): OpenConnector {
  const { secrets } = service
  const { id, client_id, client_secret_sealed, idp_client_id, idp_client_secret_sealed, idp_issuer, ...rest } =
    connector
  if (idp_issuer !== issuer) {
    const field = idp_client_id === null ? 'client_secret' : 'idp_client_secret'
    const message = `The connector’s secret was entered for another identity provider. Enter ${field} again for this one`
    throw new StepFailed('provider_exchange', message, { expected: idp_issuer ?? 'no provider', seen: issuer })
  }
  const client = { id: client_id ?? '', secret: openSecret(service, connector) ?? '' }
  const idpClient =
    idp_client_id !== null && idp_client_secret_sealed !== null
      ? { id: idp_client_id, secret: secrets.open(idp_client_secret_sealed, idpSecretPlace(id)) }
      : client
  return { ...rest, client, idpClient }
}

export const selectStoredConnectors = (sql: Sql, id: string | null = null) => sql<StoredConnector>`
  select id, name, kind, server_url, client_id, client_secret_last4, idp_client_id, idp_client_secret_last4, scopes,
         audience_mode, read_only_tools, status, created_at, updated_at, client_secret_sealed, idp_client_secret_sealed, idp_issuer
  from connectors where id = coalesce(${id}, id) order by name`

async function selectConnector(sql: Sql, id: string): Promise<Connector> {
  const [connector] = await selectConnectors(sql, id)
  if (!connector) throw notFound('connector', id)
  return connector
}

async function selectConnectors(sql: Sql, id: string | null = null): Promise<Connector[]> {
  const stored = await selectStoredConnectors(sql, id)
  return stored.map(({ client_secret_sealed, idp_client_secret_sealed, idp_issuer, ...shown }) => shown)
}
