import { randomBytes } from 'node:crypto'
import { type Context, Hono } from 'hono'
import { getCookie, setCookie } from 'hono/cookie'
import {
  AuthorizationResponseError,
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  type CustomFetch,
  calculatePKCECodeChallenge,
  clockTolerance,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  None,
  ResponseBodyError,
  randomNonce,
  randomPKCECodeVerifier,
  type ServerMetadata,
} from 'openid-client'
import type { Config } from '../config/config.ts'
import type { Service } from '../foundation/service.ts'
import type { NodeEnv } from '../http/browser-session.ts'
import { escapeHtml, page, pageHeaders } from '../http/pages.ts'
import { fingerprint } from '../lib/secrets.ts'
import { SafeFetchError } from '../net/safe-fetch.ts'
import { oneTime } from '../stores/one-time.ts'
import { type Identity, readIdentity, signIn, type User } from '../users/users.ts'
import { recordSignIn } from './sign-in-audit.ts'
import { limitVisits } from './visit-limits.ts'

/** What has to come back from the provider, to the browser that left. */
interface PendingSignIn {
  browser: string
  nonce: string
  verifier: string
  return_to: string
  /** What the provider was told to ask. */
  prompt?: Prompt | undefined
}

type Prompt = 'select_account' | 'login'

const lifetimeSeconds = 10 * 60
const pendingSignIn = oneTime<PendingSignIn>('sign-in-state', lifetimeSeconds, 5_000)
/** The path is the one that the browser was sent away from: a link to another page does not sign anybody in there. */
const handoff = oneTime<{ user: User; path: string }>('sign-in-handoff', 60)
/** How long a change of the provider's endpoints may go unnoticed. Its keys are fetched for every sign-in. */
const rememberMetadataMs = 10 * 60_000

/**
 * Where to send a browser that has to sign in. It comes back to `returnTo`, a path, with `handoff` in the query.
 * A provider that `asks` lets somebody choose who is signed in there already.
 */
export async function startExternalSignIn(
  { config }: Service,
  returnTo: string,
  { asks = false } = {},
): Promise<string> {
  if (!ownAddress(config.publicUrl, returnTo)) throw new Error('A sign-in can only come back to a path of our own')
  const query = new URLSearchParams({ return_to: returnTo, ...(asks && { account: 'other' }) })
  return `${config.publicUrl}/sign-in/external?${query}`
}

/** Ties a sign-in at the provider to the browser that began it. */
export function signInCookie({ mode }: Pick<Config, 'mode'>) {
  const secure = mode === 'production'
  const options = { path: '/', httpOnly: true, secure, sameSite: 'lax' as const }
  return { name: secure ? '__Host-inlay-sign-in' : 'inlay-sign-in', options }
}

/** Who came back to `path` with `handoff`; once. The caller must know by a cookie that it is the browser it sent away. */
export async function takeHandoff({ kv }: Service, token: string, path: string): Promise<User | undefined> {
  const taken = await handoff.take(kv, token)
  return taken?.path === path ? taken.user : undefined
}

/** A path as an absolute address of ours, or undefined for whatever a browser would understand as another place. */
export function ownAddress(publicUrl: string, path: string): URL | undefined {
  const address = path.startsWith('/') && path.length <= 2000 ? URL.parse(path, publicUrl) : null
  return address?.origin === publicUrl ? address : undefined
}

export function serveExternalSignIn(service: Service, client: NonNullable<Config['signInClient']>): Hono<NodeEnv> {
  const { config, kv, log } = service
  const app = new Hono<NodeEnv>()
  const provider = createProvider(service, client)
  const redirectUri = `${config.publicUrl}/sign-in/callback`
  const { name: cookieName, options: cookieOptions } = signInCookie(config)

  /** One secret for all tabs of a browser, so that several sign-ins at once do not disturb each other. */
  function bindBrowser(c: Context): string {
    const known = getCookie(c, cookieName)
    const secret = known && /^[\w-]{43}$/.test(known) ? known : randomBytes(32).toString('base64url')
    setCookie(c, cookieName, secret, { ...cookieOptions, maxAge: lifetimeSeconds })
    return fingerprint(secret)
  }

  app.get('/external', limitVisits(service), async (c) => {
    const return_to = ownAddress(config.publicUrl, c.req.query('return_to') ?? '')?.href
    if (!return_to) return explain(c, 'misdirected')
    return sendToProvider(c, return_to, c.req.query('account') === 'other' ? 'select_account' : undefined)
  })

  async function sendToProvider(c: Context, return_to: string, prompt: Prompt | undefined): Promise<Response> {
    let configuration: Configuration
    try {
      configuration = await provider()
    } catch (error) {
      return fail(c, error, return_to)
    }
    const [nonce, verifier] = [randomNonce(), randomPKCECodeVerifier()]
    const state = await pendingSignIn.issue(kv, { browser: bindBrowser(c), nonce, verifier, return_to, prompt })
    const address = buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      scope: 'openid email profile',
      state,
      nonce,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      ...(prompt && { prompt }),
    })
    return c.redirect(address.href)
  }

  app.get('/callback', async (c) => {
    const state = c.req.query('state') ?? ''
    const pending = await pendingSignIn.take(kv, state)
    const cookie = getCookie(c, cookieName)
    if (!pending || !cookie || fingerprint(cookie) !== pending.browser) {
      log.warn({ reason: pending ? 'another browser' : 'unknown state' }, 'sign-in failed')
      return explain(c, 'ended')
    }
    let identity: Identity
    try {
      identity = await receiveIdentity(new URL(redirectUri + new URL(c.req.url).search), state, pending)
    } catch (error) {
      // Some providers have no choice of accounts, and do not say so before; then the person enters who they are.
      const isUnknown = pending.prompt === 'select_account' && isRefusedPrompt(error)
      return isUnknown ? sendToProvider(c, pending.return_to, 'login') : fail(c, error, pending.return_to)
    }
    const user = await signIn(service, identity)
    await recordSignIn(service, user.id, { method: 'provider', address: service.clientAddress(c.env.incoming) })
    const address = new URL(pending.return_to)
    address.searchParams.set('handoff', await handoff.issue(kv, { user, path: address.pathname }))
    return c.redirect(address.href)
  })

  async function receiveIdentity(address: URL, state: string, pending: PendingSignIn): Promise<Identity> {
    const configuration = await provider()
    const tokens = await authorizationCodeGrant(configuration, address, {
      expectedState: state,
      expectedNonce: pending.nonce,
      pkceCodeVerifier: pending.verifier,
    })
    const claims = { ...tokens.claims() }
    // Some providers keep the address out of their ID tokens.
    const more =
      !claims.email && claims.sub && configuration.serverMetadata().userinfo_endpoint
        ? await fetchUserInfo(configuration, tokens.access_token, claims.sub)
        : {}
    const identity = readIdentity(client.issuer, { ...claims, ...more })
    if (!identity) throw new NoAddress('The provider names no address')
    return identity
  }

  function fail(c: Context, error: unknown, returnTo: string): Response {
    const outcome = outcomeOf(error)
    // The provider's own code, such as invalid_client, is what an operator looks for.
    const said = error instanceof AuthorizationResponseError || error instanceof ResponseBodyError ? error.error : ''
    log.warn({ reason: outcome, ...(said && { said }), err: error }, 'sign-in failed')
    return explain(c, outcome, returnTo)
  }
  return app
}

/** The provider as openid-client wants it. A failure is not remembered. */
function createProvider(service: Service, { issuer, id, secret }: NonNullable<Config['signInClient']>) {
  const extensions = [enableNonRepudiationChecks, ...(issuer.startsWith('http:') ? [allowInsecureRequests] : [])]
  const safely: CustomFetch = (address, init) => service.fetch(address, init as RequestInit)
  let remembered: { metadata: ServerMetadata; at: number } | undefined

  async function discover(): Promise<ServerMetadata> {
    const metadata = (
      await discovery(new URL(issuer), id, undefined, undefined, { execute: extensions, [customFetch]: safely })
    ).serverMetadata()
    if (metadata.issuer !== issuer) throw new Error(`${issuer} calls itself ${metadata.issuer}: set SIGN_IN_ISSUER so`)
    remembered = { metadata, at: service.clock() }
    return metadata
  }
  const authenticate = ({ token_endpoint_auth_methods_supported: methods }: ServerMetadata) => {
    if (!secret) return None()
    return methods?.includes('client_secret_post') ? ClientSecretPost(secret) : ClientSecretBasic(secret)
  }

  return async (): Promise<Configuration> => {
    const isFresh = remembered && service.clock() - remembered.at < rememberMetadataMs
    const metadata = isFresh && remembered ? remembered.metadata : await discover()
    // A new one knows no keys yet, so a rotation at the provider is never missed.
    const configuration = new Configuration(metadata, id, { [clockTolerance]: 60 }, authenticate(metadata))
    configuration[customFetch] = safely
    for (const extend of extensions) extend(configuration)
    return configuration
  }
}

const isRefusedPrompt = (error: unknown) =>
  error instanceof AuthorizationResponseError &&
  ['invalid_request', 'account_selection_required', 'interaction_required'].includes(error.error)

class NoAddress extends Error {
  override name = 'NoAddress'
}

type Outcome = 'misdirected' | 'ended' | 'denied' | 'refused' | 'unreachable' | 'no_address'

function outcomeOf(error: unknown): Outcome {
  if (error instanceof NoAddress) return 'no_address'
  if (error instanceof AuthorizationResponseError) return error.error === 'access_denied' ? 'denied' : 'refused'
  const isNetwork = [error, (error as Error).cause].some((one) => one instanceof SafeFetchError)
  return isNetwork || (error as { code?: string }).code === 'OAUTH_RESPONSE_IS_NOT_CONFORM' ? 'unreachable' : 'refused'
}

/** What the person can do about it. The cause is in the log. */
const explanations: Record<Outcome, { status: 400 | 403 | 502 | 503; title: string; text: string }> = {
  misdirected: {
    status: 400,
    title: 'This address is not complete',
    text: 'Start again from the application in which you wanted to sign in.',
  },
  ended: {
    status: 400,
    title: 'This sign-in has ended',
    text: 'It was finished already, it took longer than ten minutes, or it was begun in another browser. Start again from the application in which you wanted to sign in.',
  },
  denied: {
    status: 403,
    title: 'You were not signed in',
    text: 'The sign-in was cancelled, or your sign-in provider did not let you in. If it should have, ask its administrator for access.',
  },
  refused: {
    status: 502,
    title: 'The sign-in did not work',
    text: 'The answer of your sign-in provider could not be used. Try again; if that does not help, tell whoever runs this service, whose log says why.',
  },
  unreachable: {
    status: 503,
    title: 'Your sign-in provider does not answer',
    text: 'Try again in a minute. If that does not help, tell whoever runs this service.',
  },
  no_address: {
    status: 403,
    title: 'Your account has no email address',
    text: 'Your sign-in provider did not name one. Add one to your account there, or ask its administrator to share it with this service.',
  },
}

function explain(c: Context, outcome: Outcome, returnTo?: string): Response {
  const { status, title, text } = explanations[outcome]
  const again = returnTo ? `<p><a href="${escapeHtml(returnTo)}">Try again</a></p>` : ''
  return c.body(page(title, `<h1>${title}</h1><p>${text}</p>${again}`), status, pageHeaders)
}
