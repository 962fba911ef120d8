// oidc-provider's token endpoint: issues an opaque access token for client credentials, stored by its own in-memory
// adapter or by a minimal Redis adapter, as JSON.
import { createServer } from 'node:http'
import { type Adapter, type AdapterPayload, Provider } from 'oidc-provider'
import { announce } from './announce.ts'
import { readOptions } from './options.ts'

const { count, redis } = readOptions()
const clients = Array.from({ length: count }, (_, index) => ({
  client_id: `client-${index}`,
  client_secret: `secret-of-client-${index}`,
  grant_types: ['client_credentials'],
  response_types: [],
  redirect_uris: [],
  token_endpoint_auth_method: 'client_secret_post' as const,
}))
const unused = () => {
  throw new Error('Not used by the client credentials grant')
}
const onRedis =
  redis &&
  ((kind: string): Adapter => ({
    upsert: async (id: string, payload: AdapterPayload, expiresIn: number) =>
      void (await redis.set(`${kind}:${id}`, JSON.stringify(payload), 'EX', expiresIn)),
    find: async (id: string) => JSON.parse((await redis.get(`${kind}:${id}`)) ?? 'null') ?? undefined,
    destroy: async (id: string) => void (await redis.del(`${kind}:${id}`)),
    findByUserCode: unused,
    findByUid: unused,
    consume: unused,
    revokeByGrantId: unused,
  }))
const provider = new Provider('http://localhost', {
  clients,
  features: { clientCredentials: { enabled: true } },
  ...(onRedis && { adapter: onRedis }),
})

announce(createServer(provider.callback()), { clients })
