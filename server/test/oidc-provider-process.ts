import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import { Provider } from 'oidc-provider'

/** `oidc-provider` behind a port of its own. See oidc-provider.ts for what it is asked. */
let listener: RequestListener
let fetches = 0
const server = createServer((request, response) => {
  if (request.url === '/jwks') fetches += 1
  listener(request, response)
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

let provider = await makeProvider()
process.send?.({ issuer })

process.on('message', async (message: { ask: string; claims: Record<string, unknown> }) => {
  if (message.ask === 'rotate') provider = await makeProvider()
  if (message.ask === 'rotate') process.send?.({})
  if (message.ask === 'fetches') process.send?.({ count: fetches })
  if (message.ask === 'token') process.send?.({ token: await issue(message.claims) })
})

async function makeProvider(): Promise<Provider> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const key = { ...(await exportJWK(privateKey)), kid: crypto.randomUUID(), alg: 'RS256', use: 'sig' }
  const fresh = new Provider(issuer, {
    jwks: { keys: [key] },
    clients: ['shop', 'elsewhere'].map((client_id) => ({
      client_id,
      token_endpoint_auth_method: 'none',
      redirect_uris: ['https://shop.example.com/callback'],
    })),
    claims: { openid: ['sub'], profile: ['name', 'email', 'email_verified', 'plan'] },
    scopes: ['openid', 'profile'],
    conformIdTokenClaims: false,
  })
  listener = fresh.callback()
  return fresh
}

/** The provider's own ID token: what it would hand out at its token endpoint. */
async function issue(claims: Record<string, unknown>): Promise<string> {
  const { client_id = 'shop', sub = 'ann', ...rest } = claims
  const client = await provider.Client.find(String(client_id))
  if (!client) throw new Error(`No client ${client_id}`)
  const token = new provider.IdToken({}, { client })
  for (const [name, value] of Object.entries({ sub, ...rest })) token.set(name, value)
  return token.issue({ use: 'idtoken' })
}
