import { connectClient, withBearer } from '../src/connectors/remote-clients.ts'
import { readServerMetadata } from '../src/connectors/server-metadata.ts'
import { redeemAssertion, requestAssertion } from '../src/connectors/token-exchange.ts'
import { createSafeFetch } from '../src/lib/safe-fetch.ts'

/**
 * The hub as a client of the conformance suite: the functions that a call of a connector's tool goes through, without a
 * database. The suite gives the server's address as the last argument and the rest in the environment.
 */
const server_url = process.argv.at(-1) ?? ''
const { client_id, client_secret, idp_client_id, idp_id_token, idp_issuer } = JSON.parse(
  process.env.MCP_CONFORMANCE_CONTEXT ?? '{}',
)
const service = { fetch: createSafeFetch({ allowedPrivateNetworks: ['127.0.0.0/8', '::1/128'] }), clock: Date.now }
const delegation = {
  server_url,
  audience_mode: 'issuer' as const,
  scopes: ['mcp:tools:read', 'mcp:tools:call'],
  client: { id: client_id, secret: client_secret },
  idpClient: { id: idp_client_id, secret: client_secret },
}
const metadata = await readServerMetadata(service, server_url)
const trusted = { issuer: idp_issuer, audiences: null }
const assertion = await requestAssertion(service, trusted, idp_id_token, delegation, metadata)
const { access_token } = await redeemAssertion(service, assertion, delegation, metadata)
const client = await connectClient(server_url, (input, init) => service.fetch(input, withBearer(init, access_token)))
await client.listTools()
await client.close()
await service.fetch.close()
