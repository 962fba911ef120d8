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
import type { Config } from '../../kernel/config/config.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { SafeFetchError } from '../../kernel/net/safe-fetch.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import { readIdentity, signIn, type User } from '../users/users.ts'
import { recordSignIn } from './sign-in-audit.ts'
import { limitVisits } from './visit-limits.ts'

type SignInClient = NonNullable<Config['signInClient']>

/** Where users sign in: the installation's provider, or an organization's. */
export interface SignInProvider {
  /** Distinguishes the providers: a sign-in that one started can't be finished with another. */
  id: string
  client: SignInClient
  redirectUri: string
  /** Finds or adds the user whom the provider's claims describe. */
  admit(claims: Record<string, unknown>, address: string): Promise<Admission>
}

export type Admission =
  | { is: 'admitted'; user: User }
  | { is: 'no_address' }
  /** The provider did its part, but the user can't sign in. */
  | { is: 'explained'; title: string; text: string }

/** Checked when the provider redirects back: the response must belong to this browser, provider and request. */
interface PendingSignIn {
  provider: string
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

export function serveExternalSignIn(service: Service, client: SignInClient): Hono<NodeEnv> {
  const { config } = service
  const app = new Hono<NodeEnv>()
  const flow = createSignInFlow(service)
  const provider: SignInProvider = {
    id: 'installation',
    client,
    redirectUri: `${config.publicUrl}/sign-in/callback`,
    async admit(claims, address) {
      const identity = readIdentity(client.issuer, claims)
      if (!identity) return { is: 'no_address' }
      const user = await signIn(service, identity)
      await recordSignIn(service, user.id, { method: 'provider', address })
      return { is: 'admitted', user }
    },
  }
  app.get('/external', limitVisits(service), (c) => flow.start(c, provider))
  app.get('/callback', (c) => flow.finish(c, provider))
  return app
}

/** The requests of a browser that signs in at a provider, from leaving for it to coming back. */
export interface SignInFlow {
  /** Sends the browser to the provider. `return_to` in the query is the path that it returns to in the end. */
  start(c: Context<NodeEnv>, provider: SignInProvider): Promise<Response>
  finish(c: Context<NodeEnv>, provider: SignInProvider): Promise<Response>
}

export function createSignInFlow(service: Service): SignInFlow {
  const { config, kv, log } = service
  const configure = createConfigurations(service)
  const { name: cookieName, options: cookieOptions } = signInCookie(config)

  /** All tabs of a browser share one secret, so that concurrent sign-ins don't invalidate each other. */
  function bindBrowser(c: Context): string {
    const known = getCookie(c, cookieName)
    const secret = known && /^[\w-]{43}$/.test(known) ? known : randomBytes(32).toString('base64url')
    setCookie(c, cookieName, secret, { ...cookieOptions, maxAge: lifetimeSeconds })
    return fingerprint(secret)
  }

  async function sendToProvider(
    c: Context,
    { id, client, redirectUri }: SignInProvider,
    return_to: string,
    prompt: Prompt | undefined,
  ): Promise<Response> {
    const [nonce, verifier] = [randomNonce(), randomPKCECodeVerifier()]
    let address: URL
    try {
      address = buildAuthorizationUrl(await configure(client), {
        redirect_uri: redirectUri,
        scope: 'openid email profile',
        nonce,
        code_challenge: await calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...(prompt && { prompt }),
      })
    } catch (error) {
      return fail(c, id, error, return_to)
    }
    const pending = { provider: id, browser: bindBrowser(c), nonce, verifier, return_to, prompt }
    address.searchParams.set('state', await pendingSignIn.issue(kv, pending))
    return c.redirect(address.href)
  }

  async function receiveClaims(
    { client, redirectUri }: SignInProvider,
    search: string,
    state: string,
    pending: PendingSignIn,
  ): Promise<Record<string, unknown>> {
    const configuration = await configure(client)
    const tokens = await authorizationCodeGrant(configuration, new URL(redirectUri + search), {
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
    return { ...claims, ...more }
  }

  function fail(c: Context, provider: string, error: unknown, returnTo: string): Response {
    const outcome = outcomeOf(error)
    // The provider's error code, such as invalid_client, is what an operator needs.
    const said = error instanceof AuthorizationResponseError || error instanceof ResponseBodyError ? error.error : ''
    log.warn({ provider, reason: outcome, ...(said && { said }), err: error }, 'sign-in failed')
    return explain(c, explanations[outcome], returnTo)
  }

  return {
    async start(c, provider) {
      const return_to = ownAddress(config.publicUrl, c.req.query('return_to') ?? '')?.href
      if (!return_to) return explain(c, explanations.misdirected)
      return sendToProvider(c, provider, return_to, c.req.query('account') === 'other' ? 'select_account' : undefined)
    },

    async finish(c, provider) {
      const state = c.req.query('state') ?? ''
      const pending = await pendingSignIn.take(kv, state)
      const cookie = getCookie(c, cookieName)
      const isOwn = pending && cookie && fingerprint(cookie) === pending.browser
      if (!isOwn || pending.provider !== provider.id) {
        const reason = !pending ? 'unknown state' : isOwn ? 'another provider' : 'another browser'
        log.warn({ provider: provider.id, reason }, 'sign-in failed')
        return explain(c, explanations.ended)
      }
      let claims: Record<string, unknown>
      try {
        claims = await receiveClaims(provider, new URL(c.req.url).search, state, pending)
      } catch (error) {
        // Some providers have no account chooser and only report it here; retry with a plain login.
        const isUnknown = pending.prompt === 'select_account' && isRefusedPrompt(error)
        return isUnknown
          ? sendToProvider(c, provider, pending.return_to, 'login')
          : fail(c, provider.id, error, pending.return_to)
      }
      const admission = await provider.admit(claims, service.clientAddress(c.env.incoming))
      if (admission.is === 'admitted') {
        const address = new URL(pending.return_to)
        address.searchParams.set('handoff', await handoff.issue(kv, { user: admission.user, path: address.pathname }))
        return c.redirect(address.href)
      }
      log.warn({ provider: provider.id, reason: admission.is }, 'sign-in failed')
      const why = admission.is === 'explained' ? { status: 403 as const, ...admission } : explanations.no_address
      return explain(c, why, pending.return_to)
    },
  }
}

/** Bounds the memory for organizations' providers. */
const mostProviders = 1_000

/** Returns a function for openid-client's configuration of a provider. Failed discoveries aren't cached. */
export function createConfigurations(service: Pick<Service, 'fetch' | 'clock'>) {
  const safely: CustomFetch = (address, init) => service.fetch(address, init as RequestInit)
  const remembered = new Map<string, { metadata: ServerMetadata; at: number }>()

  const extensionsFor = (issuer: string) => [
    enableNonRepudiationChecks,
    ...(issuer.startsWith('http:') ? [allowInsecureRequests] : []),
  ]

  async function discover({ issuer, id }: SignInClient): Promise<ServerMetadata> {
    const options = { execute: extensionsFor(issuer), [customFetch]: safely }
    const metadata = (await discovery(new URL(issuer), id, undefined, undefined, options)).serverMetadata()
    if (metadata.issuer !== issuer)
      throw new Error(`Set the issuer to ${metadata.issuer}, which ${issuer} reports as its own`)
    remembered.delete(issuer)
    remembered.set(issuer, { metadata, at: service.clock() })
    const [oldest] = remembered.keys()
    if (remembered.size > mostProviders && oldest !== undefined) remembered.delete(oldest)
    return metadata
  }
  const authenticate = (
    secret: string | undefined,
    { token_endpoint_auth_methods_supported: methods }: ServerMetadata,
  ) => {
    if (!secret) return None()
    return methods?.includes('client_secret_post') ? ClientSecretPost(secret) : ClientSecretBasic(secret)
  }

  return async (client: SignInClient): Promise<Configuration> => {
    const known = remembered.get(client.issuer)
    const isFresh = known && service.clock() - known.at < cacheMetadataMs
    const metadata = isFresh ? known.metadata : await discover(client)
    // A new configuration has no cached keys, so a key rotation at the provider takes effect at once.
    const authentication = authenticate(client.secret, metadata)
    const configuration = new Configuration(metadata, client.id, { [clockTolerance]: 60 }, authentication)
    configuration[customFetch] = safely
    for (const extend of extensionsFor(client.issuer)) extend(configuration)
    return configuration
  }
}

const isRefusedPrompt = (error: unknown) =>
  error instanceof AuthorizationResponseError &&
  ['invalid_request', 'account_selection_required', 'interaction_required'].includes(error.error)

type Outcome = 'misdirected' | 'ended' | 'denied' | 'refused' | 'unreachable' | 'no_address'

function outcomeOf(error: unknown): Outcome {
  if (error instanceof AuthorizationResponseError) return error.error === 'access_denied' ? 'denied' : 'refused'
  const isNetwork = [error, (error as Error).cause].some((one) => one instanceof SafeFetchError)
  return isNetwork || (error as { code?: string }).code === 'OAUTH_RESPONSE_IS_NOT_CONFORM' ? 'unreachable' : 'refused'
}

interface Explanation {
  status: 400 | 403 | 502 | 503
  title: string
  text: string
}

/** Tells the user what to do. The cause is in the log. */
const explanations: Record<Outcome, Explanation> = {
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

function explain(c: Context, { status, title, text }: Explanation, returnTo?: string): Response {
  const again = returnTo ? `<p><a href="${escapeHtml(returnTo)}">Try again</a></p>` : ''
  const html = `<h1>${escapeHtml(title)}</h1><p>${escapeHtml(text)}</p>${again}`
  return c.body(page(title, html), status, pageHeaders)
}
