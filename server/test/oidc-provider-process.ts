import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
import { Provider } from 'oidc-provider'
import { cert, key } from './localhost-certificate.ts'

/** Runs `oidc-provider` as a process. See oidc-provider.ts for the messages it accepts. */
let listener: RequestListener
let fetches = 0
let person: Record<string, unknown> = { sub: 'ann' }
let behaviour: { away?: boolean; lying?: boolean } = {}
const isTls = process.argv.includes('tls')
const serve: RequestListener = (request, response) => {
  if (behaviour.away) return request.socket.destroy()
  if (request.url === '/jwks') fetches += 1
  if (request.url === '/jwks' && behaviour.lying) {
    void makeKey().then((key) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: [key] })),
    )
  } else if (request.url?.startsWith('/interaction/')) {
    // Replaces the sign-in page.
    const result = 'error' in person ? person : { login: { accountId: String(person.sub) } }
    void provider.interactionFinished(request, response, result)
  } else listener(request, response)
}
const server = isTls ? createTlsServer({ key, cert }, serve) : createServer(serve)
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const issuer = `${isTls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`

let provider = await makeProvider()
process.send?.({ issuer })

interface Message {
  id: number
  ask: string
  claims: Record<string, unknown>
  person: typeof person
  how: typeof behaviour
}
const answers: Record<string, (message: Message) => object | Promise<object>> = {
  token: async ({ claims }) => ({ token: await issue(claims) }),
  rotate: async () => {
    provider = await makeProvider()
    return {}
  },
  fetches: () => ({ count: fetches }),
  expect: (message) => {
    person = message.person
    return {}
  },
  behave: ({ how }) => {
    behaviour = how
    return {}
  },
}
// The test that started this process has ended without stopping it.
process.on('disconnect', () => process.exit())
process.on('message', async (message: Message) =>
  process.send?.({ id: message.id, answer: await answers[message.ask]?.(message) }),
)

async function makeKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  return { ...(await exportJWK(privateKey)), kid: crypto.randomUUID(), alg: 'RS256', use: 'sig' }
}

async function makeProvider(): Promise<Provider> {
  const fresh = new Provider(issuer, {
    jwks: { keys: [await makeKey()] },
    clients: [
      ...['shop', 'elsewhere'].map((client_id) => ({
        client_id,
        token_endpoint_auth_method: 'none' as const,
        redirect_uris: ['https://shop.example.com/callback'],
      })),
      {
        client_id: 'inlay',
        client_secret: 'secret-of-inlay-at-the-provider',
        token_endpoint_auth_method: 'client_secret_post',
        redirect_uris: ['http://localhost:8787/sign-in/callback'],
      },
    ],
    claims: {
      openid: ['sub'],
      profile: ['name', 'email', 'email_verified', 'plan', 'picture'],
      email: ['email', 'email_verified'],
    },
    scopes: ['openid', 'profile', 'email'],
    conformIdTokenClaims: process.argv.includes('lean'),
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ ...person, sub: accountId }) }),
    // Every user has already consented.
    async loadExistingGrant({ oidc }) {
      const grant = new fresh.Grant({
        clientId: oidc.client?.clientId ?? '',
        accountId: oidc.session?.accountId ?? '',
      })
      grant.addOIDCScope('openid profile email')
      await grant.save()
      return grant
    },
  })
  // The ports of test services aren't known in advance.
  fresh.Client.prototype.redirectUriAllowed = (uri: string) => uri.endsWith('/callback')
  listener = fresh.callback()
  return fresh
}

/** Issues an ID token like the provider's token endpoint. */
async function issue(claims: Record<string, unknown>): Promise<string> {
  const { client_id = 'shop', sub = 'ann', ...rest } = claims
  const client = await provider.Client.find(String(client_id))
  if (!client) throw new Error(`No client ${client_id}`)
  const token = new provider.IdToken({}, { client })
  for (const [name, value] of Object.entries({ sub, ...rest })) token.set(name, value)
  return token.issue({ use: 'idtoken' })
}
