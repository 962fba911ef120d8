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

/** Checked when the provider redirects back: the response must belong to this browser and this request. */
interface PendingSignIn {
  browser: string
  nonce: string
  verifier: string
  return_to: string
  /** The `prompt` parameter that was sent to the provider. */
  prompt?: Prompt | undefined
}

type Prompt = 'select_account' | 'login'

const lifetimeSeconds = 10 * 60
const pendingSignIn = oneTime<PendingSignIn>('sign-in-state', lifetimeSeconds, 5_000)
/** Valid only for the path that the browser left from, so a handoff link can't sign a user in to another page. */
const handoff = oneTime<{ user: User; path: string }>('sign-in-handoff', 60)
/** How long the provider's metadata is cached. Its keys are fetched for every sign-in. */
const cacheMetadataMs = 10 * 60_000

/**
 * Returns the URL to send a browser to for sign-in. It returns to `returnTo`, a path, with `handoff` in the query.
 * With `asks`, the provider shows its account chooser even if the user is already signed in there.
 */
export async function startExternalSignIn(
  { config }: Service,
  returnTo: string,
  { asks = false } = {},
): Promise<string> {
  if (!ownAddress(config.publicUrl, returnTo)) throw new Error('A sign-in can only return to a path on this server')
  const query = new URLSearchParams({ return_to: returnTo, ...(asks && { account: 'other' }) })
  return `${config.publicUrl}/sign-in/external?${query}`
}

/** Ties a sign-in at the provider to the browser that started it. */
export function signInCookie({ mode }: Pick<Config, 'mode'>) {
  const secure = mode === 'production'
  const options = { path: '/', httpOnly: true, secure, sameSite: 'lax' as const }
  return { name: secure ? '__Host-inlay-sign-in' : 'inlay-sign-in', options }
}

/** Redeems a handoff once, for `path` only. The caller must verify that this browser started the sign-in. */
export async function takeHandoff({ kv }: Service, token: string, path: string): Promise<User | undefined> {
  const taken = await handoff.take(kv, token)
  return taken?.path === path ? taken.user : undefined
}

/** Resolves a path to a URL on this server, or undefined if a browser would resolve it to another origin. */
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

  /** All tabs of a browser share one secret, so that concurrent sign-ins don't invalidate each other. */
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
      // Some providers have no account chooser and only report it here; retry with a plain login.
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
    // Some providers leave the email address out of ID tokens.
    const more =
      !claims.email && claims.sub && configuration.serverMetadata().userinfo_endpoint
        ? await fetchUserInfo(configuration, tokens.access_token, claims.sub)
        : {}
    const identity = readIdentity(client.issuer, { ...claims, ...more })
    if (!identity) throw new NoAddress('The provider returned no email address')
    return identity
  }

  function fail(c: Context, error: unknown, returnTo: string): Response {
    const outcome = outcomeOf(error)
    // The provider's error code, such as invalid_client, is what an operator needs.
    const said = error instanceof AuthorizationResponseError || error instanceof ResponseBodyError ? error.error : ''
    log.warn({ reason: outcome, ...(said && { said }), err: error }, 'sign-in failed')
    return explain(c, outcome, returnTo)
  }
  return app
}

/** Returns openid-client's configuration for the provider. Failed discoveries aren't cached. */
function createProvider(service: Service, { issuer, id, secret }: NonNullable<Config['signInClient']>) {
  const extensions = [enableNonRepudiationChecks, ...(issuer.startsWith('http:') ? [allowInsecureRequests] : [])]
  const safely: CustomFetch = (address, init) => service.fetch(address, init as RequestInit)
  let remembered: { metadata: ServerMetadata; at: number } | undefined

  async function discover(): Promise<ServerMetadata> {
    const metadata = (
      await discovery(new URL(issuer), id, undefined, undefined, { execute: extensions, [customFetch]: safely })
    ).serverMetadata()
    if (metadata.issuer !== issuer)
      throw new Error(`Set SIGN_IN_ISSUER to ${metadata.issuer}, the issuer that ${issuer} reports`)
    remembered = { metadata, at: service.clock() }
    return metadata
  }
  const authenticate = ({ token_endpoint_auth_methods_supported: methods }: ServerMetadata) => {
    if (!secret) return None()
    return methods?.includes('client_secret_post') ? ClientSecretPost(secret) : ClientSecretBasic(secret)
  }

  return async (): Promise<Configuration> => {
    const isFresh = remembered && service.clock() - remembered.at < cacheMetadataMs
    const metadata = isFresh && remembered ? remembered.metadata : await discover()
    // A new configuration has no cached keys, so a key rotation at the provider takes effect at once.
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

/** Tells the user what to do. The cause is in the log. */
const explanations: Record<Outcome, { status: 400 | 403 | 502 | 503; title: string; text: string }> = {
  misdirected: {
    status: 400,
    title: 'This link isn’t valid',
    text: 'Start again from the app that you want to sign in to.',
  },
  ended: {
    status: 400,
    title: 'This sign-in has expired',
    text: 'It was already completed, took longer than ten minutes, or was started in another browser. Start again from the app that you want to sign in to.',
  },
  denied: {
    status: 403,
    title: 'You’re not signed in',
    text: 'You cancelled, or your sign-in provider denied you access. If you should have access, ask your administrator.',
  },
  refused: {
    status: 502,
    title: 'Sign-in failed',
    text: 'Inlay couldn’t use your sign-in provider’s response. Try again. If it still fails, contact the operator of this service, who can find the cause in the server’s log.',
  },
  unreachable: {
    status: 503,
    title: 'Your sign-in provider isn’t responding',
    text: 'Try again in a minute. If it still fails, contact the operator of this service.',
  },
  no_address: {
    status: 403,
    title: 'Your account has no email address',
    text: 'Your sign-in provider didn’t share one. Add an email address to your account there, or ask your administrator to share it with this service.',
  },
}

function explain(c: Context, outcome: Outcome, returnTo?: string): Response {
  const { status, title, text } = explanations[outcome]
  const again = returnTo ? `<p><a href="${escapeHtml(returnTo)}">Try again</a></p>` : ''
  return c.body(page(title, `<h1>${title}</h1><p>${text}</p>${again}`), status, pageHeaders)
}
