import { createInlayClient } from '../client/src/client.ts'
import { clientId, frameClientId } from './client.ts'
import { hub } from './hub.ts'

export interface Introduction {
  inlayUrl: string
  /** An access token of an administrator of the shop's organization. */
  token: string
  shopUrl: string
  issuer: string
  toolServerUrl: string
}

const keyName = 'Example shop'
const connectorName = 'orders'

/** The demo model understands these sentences. */
const greeting = 'Hello! I can find products, put them into your cart, and look up your orders.'
const starter_prompts = ['Do you have blue ink?', 'Add two bottles of blue ink to my cart', 'Where is my order 1041?']

/** Sets up the shop's organization as its administrator would: connector, agent, identity provider, publishable key. */
export async function introduceShop({
  inlayUrl,
  token,
  shopUrl,
  issuer,
  toolServerUrl,
}: Introduction): Promise<string> {
  const inlay = createInlayClient({ url: inlayUrl, token })
  await introduceAgent(inlay, [shopUrl, toolServerUrl])

  const provider = must(await inlay.GET('/identity-providers/config'))
  // Don't replace a provider that the developer configured.
  const isOurs = provider.idp_type === null || provider.idp_issuer?.startsWith('http://localhost:')
  const isNewIssuer = isOurs === true && provider.idp_issuer !== issuer
  if (isNewIssuer) {
    const trust = { idp_type: 'custom_oidc' as const, idp_issuer: issuer, allowed_audiences: [clientId] }
    must(await inlay.PATCH('/identity-providers/config', { body: trust }))
  }
  await introduceToolServer(inlay, `${toolServerUrl}/mcp`, isNewIssuer)
  const { client } = must(await inlay.GET('/identity-providers/frame-sign-in'))
  if (isOurs && (client?.issuer !== issuer || client.client_id !== frameClientId)) {
    const body = { client_id: frameClientId, client_secret: null }
    must(await inlay.PUT('/identity-providers/frame-sign-in', { body }))
  }

  const allowed_origins = [shopUrl]
  const { keys } = must(await inlay.GET('/publishable-keys'))
  const known = keys.find(({ name, can_reveal }) => name === keyName && can_reveal)
  if (!known) return must(await inlay.POST('/publishable-keys', { body: { name: keyName, allowed_origins } })).key
  const params = { path: { id: known.id } }
  if (!known.allowed_origins.includes(shopUrl)) {
    must(await inlay.PATCH('/publishable-keys/{id}', { params, body: { allowed_origins } }))
  }
  return must(await inlay.POST('/publishable-keys/{id}/reveal', { params })).key
}

/** Where the shop's users return to after they've confirmed their browser at the identity provider. */
export async function readConfirmRedirectUri(inlay: Pick<Introduction, 'inlayUrl' | 'token'>): Promise<string> {
  const client = createInlayClient({ url: inlay.inlayUrl, token: inlay.token })
  return must(await client.GET('/identity-providers/frame-sign-in')).redirect_uri
}

/**
 * A connector's server can't be changed, so if the tool server's URL has changed, the connector is replaced. So it is if
 * its secret was entered for another issuer.
 */
async function introduceToolServer(
  inlay: ReturnType<typeof createInlayClient>,
  server_url: string,
  isNewIssuer: boolean,
): Promise<void> {
  const { connectors } = must(await inlay.GET('/connectors'))
  const known = connectors.find(({ name }) => name === connectorName)
  if (known?.server_url === server_url && !isNewIssuer) return
  if (known) must(await inlay.DELETE('/connectors/{id}', { params: { path: { id: known.id } } }))
  const body = {
    name: connectorName,
    kind: 'id_jag' as const,
    server_url,
    client_id: hub.clientId,
    client_secret: hub.secretAtToolServer,
    idp_client_id: hub.clientId,
    idp_client_secret: hub.secretAtIdentityProvider,
  }
  must(await inlay.POST('/connectors', { body }))
}

/** The shop and its tool server trust each other, so the agent may use what one says to ask the other. */
async function introduceAgent(inlay: ReturnType<typeof createInlayClient>, origins: string[]): Promise<void> {
  const config = must(await inlay.GET('/agent/config'))
  const isNew = config.greeting === '' && config.starter_prompts.length === 0 && config.origin_groups.length === 0
  const isOurs = config.greeting === greeting && config.origin_groups.flat().join() !== origins.join()
  // Don't replace what the developer configured.
  if (!isNew && !isOurs) return
  const anonymous = { is_enabled: true }
  const body = { greeting, origin_groups: [origins], ...(isNew && { starter_prompts, anonymous }) }
  must(await inlay.PATCH('/agent/config', { body }))
}

function must<T>({ data, error }: { data?: T; error?: { message: string } }): T {
  if (data === undefined) throw new Error(error?.message ?? 'Inlay returned an empty response')
  return data
}
