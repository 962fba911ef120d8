// oidc-provider's token endpoint: an opaque access token for a client's credentials, kept by its own in-memory adapter.
import { createServer } from 'node:http'
import { Provider } from 'oidc-provider'
import { announce } from './announce.ts'

const count = Number(process.argv[2])
const clients = Array.from({ length: count }, (_, index) => ({
  client_id: `client-${index}`,
  client_secret: `secret-of-client-${index}`,
  grant_types: ['client_credentials'],
  response_types: [],
  redirect_uris: [],
  token_endpoint_auth_method: 'client_secret_post' as const,
}))
const provider = new Provider('http://localhost', { clients, features: { clientCredentials: { enabled: true } } })

announce(createServer(provider.callback()), { clients })
