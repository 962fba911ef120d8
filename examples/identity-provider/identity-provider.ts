import { generateKeyPairSync, randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
// @ts-expect-error Has no types. It's the library's default adapter, which logs a warning unless it's set explicitly.
import { createMemoryAdapter } from 'oidc-provider/lib/adapters/memory_adapter.js'
import { Provider } from '../../server/src/accounts/authorization-server/library.ts'
import { type AllowedExchange, addTokenExchange, idJag, tokenExchange } from './token-exchange.ts'

const hour = 60 * 60

/** The company's users. The first two are also members of the demo organization. */
const people = [
  { sub: 'demo-admin', name: 'Demo Admin', email: 'admin@demo.test' },
  { sub: 'demo-member', name: 'Demo Member', email: 'member@demo.test' },
  { sub: 'casey', name: 'Casey Customer', email: 'casey@example.test' },
] as const

const findSignedInUser = (sub: unknown) => people.find((each) => each.sub === sub)

/** The hub that the company's administrator lets act for its users, and the servers where it can. */
export interface Delegation {
  hub: { id: string; secret: string }
  allowed: readonly AllowedExchange[]
}

/**
 * The identity provider of a fictional company: `oidc-provider` with a page where users choose who they are, and with
 * the exchange of ID tokens for assertions. It requires no password, so it must not be reachable from other machines.
 */
export function createIdentityProvider(
  issuer: string,
  clients: readonly { id: string; redirectUri: string }[],
  { hub, allowed }: Delegation,
): RequestListener {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const kid = randomUUID()
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid, alg: 'ES256', use: 'sig' }] as never },
    clients: [
      {
        client_id: hub.id,
        client_secret: hub.secret,
        id_token_signed_response_alg: 'ES256',
        grant_types: [tokenExchange],
        response_types: [],
        redirect_uris: [],
      },
      ...clients.map(({ id, redirectUri }) => ({
        client_id: id,
        token_endpoint_auth_method: 'none' as const,
        redirect_uris: [redirectUri],
        id_token_signed_response_alg: 'ES256' as const,
      })),
    ],
    adapter: createMemoryAdapter(0),
    ttl: {
      AccessToken: hour,
      AuthorizationCode: 60,
      Grant: 24 * hour,
      IdToken: hour,
      Interaction: hour,
      Session: 24 * hour,
    },
    cookies: {
      keys: [randomUUID()],
      names: { session: 'example-session', interaction: 'example-interaction', resume: 'example-resume' },
    },
    claims: { openid: ['sub', 'name', 'email', 'email_verified'] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    routes: { token: '/oauth/token' },
    discovery: { identity_chaining_requested_token_types_supported: [idJag] },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    findAccount(_, sub) {
      const person = findSignedInUser(sub)
      return person && { accountId: sub, claims: () => ({ ...person, email_verified: true }) }
    },
    // The company has consented for its users, so they aren't asked.
    async loadExistingGrant({ oidc }) {
      const grant = new provider.Grant({
        clientId: oidc.client?.clientId ?? '',
        accountId: oidc.session?.accountId ?? '',
      })
      grant.addOIDCScope('openid')
      await grant.save()
      return grant
    },
  })

  addTokenExchange(provider, { issuer, privateKey, kid, allowed, findSignedInUser })

  const serve = provider.callback()
  return async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', issuer)
    if (!pathname.startsWith('/interaction/')) return serve(request, response)
    const person = findSignedInUser(searchParams.get('as'))
    if (request.method === 'POST' && person) await signIn(request, response, person.sub)
    else response.setHeader('content-type', 'text/html; charset=utf-8').end(choosePerson(pathname))
  }

  async function signIn(request: IncomingMessage, response: ServerResponse, accountId: string): Promise<void> {
    try {
      await provider.interactionFinished(request, response, { login: { accountId } })
    } catch {
      response.writeHead(400).end('This sign-in has expired. Go back to the shop and sign in again.')
    }
  }
}

const choosePerson = (path: string) => `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Example sign-in</title>
<style>
  :root { color-scheme: light dark } body { max-width: 24rem; margin: 4rem auto; padding: 0 1rem; font: 16px/1.5 system-ui }
  button { display: block; width: 100%; margin: .6rem 0; padding: .7rem 1rem; font: inherit; text-align: left; cursor: pointer }
</style>
<h1>Who are you?</h1>
<p>This is an example identity provider. Choose a user to sign in as, without a password.</p>
${people
  .map(
    ({ sub, name, email }) =>
      `<form method="post" action="${path}?as=${sub}"><button><b>${name}</b><br>${email}</button></form>`,
  )
  .join('\n')}
</html>`
