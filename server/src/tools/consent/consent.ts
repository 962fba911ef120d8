import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import {
  auth,
  computeScopeUnion,
  discoverOAuthServerInfo,
  extractWWWAuthenticateParams,
  type OAuthClientInformationContext,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  OAuthError,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import type { Service } from '../../kernel/foundation/service.ts'
import { fingerprint, ignoreUnreadable } from '../../kernel/lib/secrets.ts'
import { SafeFetchError } from '../../kernel/net/safe-fetch.ts'
import { cleanLine } from '../../kernel/untrusted/page-text.ts'
import { openSecret, type StoredConnector } from '../connectors/connectors.ts'
import { splitScopes } from '../connectors/exchanges.ts'
import { checkEndpoints } from '../connectors/server-metadata.ts'
import { type Step, StepFailed } from '../connectors/steps.ts'

/** A user who allows Inlay to act for them at a third party's server. */
export interface Consenting {
  organizationId: string
  connector: StoredConnector
  /** A member's user ID, or an end user's ID. */
  userId: string
  /** The identity provider settings that an end user was verified with. Undefined for members. */
  provider?: string | undefined
}

/** Issued by the third party. Stored only in the key-value store, encrypted, with the same keys as other tokens. */
export interface ConsentedToken {
  access_token: string
  /** Milliseconds since the Unix epoch. */
  expires_at: number
  refresh_token?: string
  scopes: string[]
  /** The authorization server that issued the token; no other accepts it. */
  issuer?: string
  /** The identity provider settings that the user was verified with; if they change, the token isn't used. */
  provider?: string | undefined
}

/** Kept while the user is at the third party. */
export interface Visit {
  organization_id: string
  connector_id: string
  user_id: string
  code_verifier: string
  discovery: OAuthDiscoveryState | undefined
  /** The page that an end user returns to, where the consent is completed. Undefined for members. */
  return_to?: string | undefined
}

type Working = Pick<Service, 'fetch' | 'kv' | 'clock' | 'secrets' | 'config'>

const visitSeconds = 600
/** Per user and server within `visitSeconds`: each visit stores the server's metadata. */
const mostVisits = 20
const renewWithinMs = 15_000
const lookEveryMs = 100
const day = 24 * 60 * 60
/** A user who doesn't use a server for this long has to consent again. */
const keepSeconds = 30 * day
/** Servers drop unused registrations and then show users an error page, so registrations expire here first. */
const registrationSeconds = 30 * day
/** Length of metadata, a registration or tokens, in characters. */
const longestStored = 64 * 1024
const firstIssuerSeconds = 365 * day
/** Used if a server doesn't return `expires_in`. */
const assumedSeconds = 3600

const visitKey = (state: string) => `connect-visit:${fingerprint(state)}`
/** Key of an access token in the key-value store, consented or delegated. */
export const consentKey = ({ organizationId, connector, userId }: Consenting): string =>
  `token:${[organizationId, connector.id, userId].map(encodeURIComponent).join(':')}`
const wantedScopeKey = (who: Consenting) => `connect-scope:${consentKey(who)}`

const callbackUrl = (publicUrl: string) => `${publicUrl}/connect/callback`
export const clientDocumentUrl = (publicUrl: string) => `${publicUrl}/client-metadata.json`

/** Client metadata that third parties get, at registration or from Inlay's metadata document. */
export const describeClient = (publicUrl: string) => ({
  client_name: 'Inlay',
  client_uri: publicUrl,
  redirect_uris: [callbackUrl(publicUrl)],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
})

/** Returns the URL to send the browser to for consent. Nothing is cached, because the server may have a new owner. */
export async function beginConsent(service: Working, who: Consenting, returnTo?: string): Promise<URL> {
  if ((await service.kv.count(`connect-visits:${consentKey(who)}`, visitSeconds)) > mostVisits)
    throw new StepFailed('consent', 'You have tried too often. Try again in ten minutes')
  const state = randomBytes(32).toString('base64url')
  const visit: Visit = {
    organization_id: who.organizationId,
    connector_id: who.connector.id,
    user_id: who.userId,
    code_verifier: '',
    discovery: undefined,
    return_to: returnTo,
  }
  const targets: URL[] = []
  const client = createClient(service, who, visit, { state, redirect: (url) => targets.push(url) })
  const { resourceMetadataUrl, scope } = await askForChallenge(service, who)
  await authorize(service, { ...client, tokens: () => undefined }, who.connector, {
    ...(resourceMetadataUrl && { resourceMetadataUrl }),
    ...(scope && { scope }),
  })
  const [target] = targets
  if (!target) throw new StepFailed('consent', 'The server didn’t ask for consent')
  // Also checks URLs that the library constructs itself for servers without metadata.
  checkEndpoints('consent', { authorization_endpoint: target.href }, who.connector.server_url)
  await service.kv.set(visitKey(state), visit, visitSeconds)
  return target
}

/** Redeems the state of a visit, once. */
export const takeVisit = ({ kv }: Pick<Service, 'kv'>, state: string): Promise<Visit | undefined> =>
  kv.take<Visit>(visitKey(state))

export async function finishConsent(
  service: Working,
  who: Consenting,
  visit: Visit,
  answer: { code: string; iss: string | undefined },
): Promise<void> {
  checkIssuer(visit, answer.iss)
  const client = createClient(service, who, visit)
  await authorize(service, client, who.connector, {
    authorizationCode: answer.code,
    ...(answer.iss !== undefined && { iss: answer.iss }),
  })
}

/**
 * RFC 9207: the answer of another authorization server must not be redeemed here. The library checks this only for
 * servers that publish metadata, so a hostile one would publish none.
 */
function checkIssuer({ discovery }: Visit, iss: string | undefined): void {
  const issuer = discovery?.authorizationServerMetadata?.issuer ?? discovery?.authorizationServerUrl ?? ''
  if (iss === undefined || iss === issuer || `${iss}/` === issuer) return
  throw new StepFailed('consent', 'Another authorization server answered', { expected: issuer, seen: iss })
}

/**
 * Renews with the refresh token; undefined if the user has to consent again. Only one node renews at a time, because
 * servers treat a refresh token that is used twice as stolen.
 */
export async function renewToken(service: Working, who: Consenting): Promise<ConsentedToken | undefined> {
  const before = await readToken(service, who)
  if (!before?.refresh_token || before.provider !== who.provider) return undefined
  const lock = `connect-renewing:${consentKey(who)}`
  if (!(await service.kv.setIfAbsent(lock, true, renewWithinMs / 1000))) return waitForAnother(service, who, before)
  try {
    const result = await authorize(service, createClient(service, who), who.connector, {})
    return result === 'AUTHORIZED' ? await readToken(service, who) : undefined
  } finally {
    await service.kv.delete(lock)
  }
}

async function waitForAnother(
  service: Working,
  who: Consenting,
  before: ConsentedToken,
): Promise<ConsentedToken | undefined> {
  for (let waited = 0; waited < renewWithinMs; waited += lookEveryMs) {
    await delay(lookEveryMs)
    const token = await readToken(service, who)
    if (token?.access_token !== before.access_token) return token
  }
  throw new StepFailed('consent', 'The server didn’t renew the access token in time')
}

export const readToken = ({ kv }: Pick<Service, 'kv'>, who: Consenting): Promise<ConsentedToken | undefined> =>
  kv.get<ConsentedToken>(consentKey(who)).catch(ignoreUnreadable)

/** Reads and deletes the token. */
export const takeToken = ({ kv }: Pick<Service, 'kv'>, who: Consenting): Promise<ConsentedToken | undefined> =>
  kv.take<ConsentedToken>(consentKey(who)).catch(ignoreUnreadable)

/**
 * Called when the server rejects the token. A token that can be renewed is kept. Renewing can't add a missing scope, so
 * the user is asked again, including for that scope, unless an administrator has chosen the scopes.
 */
export async function expireToken(
  { kv }: Pick<Service, 'kv'>,
  who: Consenting,
  lackedScope: string | undefined,
): Promise<void> {
  const token = await readToken({ kv }, who)
  const mayWiden = lackedScope !== undefined && who.connector.scopes.length === 0
  if (mayWiden) {
    const wanted = computeScopeUnion(token?.scopes.join(' '), lackedScope)
    await kv.set(wantedScopeKey(who), wanted, day)
  }
  if (token?.refresh_token && !mayWiden) await kv.set(consentKey(who), { ...token, expires_at: 0 }, keepSeconds)
  else await kv.delete(consentKey(who))
}

/** Without scopes chosen by an administrator, the server chooses. `offline_access` doesn't extend the consent. */
const allowedScopes = (granted: readonly string[], { scopes }: Pick<StoredConnector, 'scopes'>) =>
  granted.filter((each) => scopes.length === 0 || scopes.includes(each) || each === 'offline_access')

export const isAllowed = (granted: readonly string[], connector: Pick<StoredConnector, 'scopes'>): boolean =>
  allowedScopes(granted, connector).length === granted.length

/** Inlay's client registration at an authorization server. */
export async function findConsentClient(service: Working, who: Consenting, issuer: string) {
  const client = await createClient(service, who).clientInformation({ issuer })
  return client?.issuer === issuer ? client : undefined
}

/** A server's 401 response names the URL of its metadata and the scopes it requires. */
async function askForChallenge(service: Working, who: Consenting) {
  const { server_url, scopes } = who.connector
  const response = await service
    .fetch(server_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'ping' }),
    })
    .catch((error) => {
      throw explainConsentFailure('consent', error)
    })
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response)
  const wanted = scopes.length > 0 ? scopes.join(' ') : await service.kv.get<string>(wantedScopeKey(who))
  return { resourceMetadataUrl, scope: wanted ?? scope }
}

async function authorize(
  service: Working,
  client: OAuthClientProvider,
  connector: StoredConnector,
  options: Omit<Parameters<typeof auth>[1], 'serverUrl' | 'fetchFn'>,
) {
  try {
    const fetchFn = async (...[url, init]: Parameters<typeof fetch>) => {
      const secrets = [openSecret(service, connector), ...secretsOf(init?.body)]
      return shortenError(await service.fetch(url, init), secrets)
    }
    return await auth(client, { serverUrl: connector.server_url, fetchFn, ...options })
  } catch (error) {
    throw explainConsentFailure('consent', error)
  }
}

/**
 * The library puts a whole error response into its message, and writes some messages to the console. The response may
 * quote what was sent.
 */
async function shortenError(response: Response, secrets: readonly (string | undefined)[]): Promise<Response> {
  if (response.ok) return response
  const { status, headers } = response
  const body = ((await response.json().catch(() => null)) ?? {}) as Record<string, unknown>
  const { error, error_description: text } = body
  const clean = (said: string, length: number) =>
    cleanLine(
      secrets.reduce<string>((left, secret) => (secret ? left.replaceAll(secret, '[secret]') : left), said),
      length,
    )
  const told =
    typeof error === 'string'
      ? { error: clean(error, 100), error_description: clean(typeof text === 'string' ? text : error, 300) }
      : { error: 'server_error', error_description: `status ${status}` }
  return Response.json(told, { status, headers })
}

const secretsOf = (body: unknown) =>
  body instanceof URLSearchParams
    ? ['client_secret', 'refresh_token', 'code', 'code_verifier'].map((name) => body.get(name) ?? undefined)
    : []

/** For a connector's test: checks whether users could consent, without redirecting anyone. */
export async function checkAuthorizationServer(service: Working, who: Consenting): Promise<void> {
  const { resourceMetadataUrl } = await askForChallenge(service, who)
  try {
    const found = await discoverOAuthServerInfo(who.connector.server_url, {
      fetchFn: service.fetch,
      ...(resourceMetadataUrl && { resourceMetadataUrl }),
    })
    checkDiscovery(found, who.connector)
  } catch (error) {
    throw explainConsentFailure('consent', error)
  }
}

function checkDiscovery(
  { authorizationServerUrl, authorizationServerMetadata }: OAuthDiscoveryState,
  { server_url }: StoredConnector,
): void {
  const { authorization_endpoint, token_endpoint, registration_endpoint, revocation_endpoint, jwks_uri } =
    (authorizationServerMetadata ?? {}) as Record<string, unknown>
  const endpoints = { authorization_endpoint, token_endpoint, registration_endpoint, revocation_endpoint, jwks_uri }
  checkEndpoints('consent', { issuer: authorizationServerUrl, ...endpoints }, server_url)
}

/** RFC 6749, appendix A.12, without spaces. */
const sendable = /^[\x21-\x7e]+$/

/** What a third party sends is stored for each of its users, or for each of their visits. */
function checkLength(name: string, value: unknown): void {
  if (JSON.stringify(value).length > longestStored)
    throw new StepFailed('consent', `The server sent ${name} with more than ${longestStored} characters`)
}

/** Turns the library's errors into a `StepFailed`. */
export function explainConsentFailure(step: Step, error: unknown): unknown {
  if (error instanceof StepFailed) return error
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof SafeFetchError) return new StepFailed(step, cause.message, { cause: error })
  }
  if (error instanceof OAuthError) return new StepFailed(step, `The server responded: ${error.code}, ${error.message}`)
  return error instanceof Error ? new StepFailed(step, error.message, { cause: error }) : error
}

function createClient(
  service: Working,
  who: Consenting,
  visit?: Visit,
  start?: { state: string; redirect(url: URL): unknown },
): OAuthClientProvider {
  const { kv, clock, config } = service
  const { publicUrl } = config
  const { organizationId, connector } = who
  const clientKey = (context?: OAuthClientInformationContext) =>
    `connect-client:${organizationId}:${connector.id}:${fingerprint(context?.issuer ?? '')}`
  /** Key of the registration that was used last. */
  let registration: string | undefined
  /** A configured secret is only sent to the authorization server that the server named first. */
  async function firstIssuer(context?: OAuthClientInformationContext): Promise<string | undefined> {
    const key = `connect-issuer:${organizationId}:${connector.id}`
    if (context?.issuer) await kv.setIfAbsent(key, context.issuer, firstIssuerSeconds)
    return kv.get<string>(key)
  }
  return {
    redirectUrl: callbackUrl(publicUrl),
    clientMetadata: describeClient(publicUrl),
    // Third parties fetch it, so it must be reachable for them.
    ...(publicUrl.startsWith('https:') && { clientMetadataUrl: clientDocumentUrl(publicUrl) }),
    ...(start && { state: () => start.state }),
    async clientInformation(context) {
      if (connector.client_id === null) {
        registration = clientKey(context)
        const known = await kv.get<StoredOAuthClientInformation>(registration)
        if (known) await kv.set(registration, known, registrationSeconds)
        return known
      }
      const client_secret = openSecret(service, connector)
      const issuer = await firstIssuer(context)
      return {
        client_id: connector.client_id,
        ...(client_secret !== undefined && { client_secret }),
        ...(issuer !== undefined && { issuer }),
      }
    },
    saveClientInformation(information, context) {
      checkLength('a registration', information)
      return kv.set(clientKey(context), information, registrationSeconds)
    },
    async tokens(): Promise<StoredOAuthTokens | undefined> {
      const token = await readToken(service, who)
      return (
        token && {
          access_token: token.access_token,
          token_type: 'Bearer',
          scope: token.scopes.join(' '),
          ...(token.refresh_token !== undefined && { refresh_token: token.refresh_token }),
          ...(token.issuer !== undefined && { issuer: token.issuer }),
        }
      )
    },
    // An administrator may have narrowed the scopes since the user consented. Otherwise the scope is omitted, because
    // some servers reject it.
    scopeForRefresh({ scope = '' }) {
      const granted = splitScopes(scope)
      return isAllowed(granted, connector) ? undefined : allowedScopes(granted, connector).join(' ')
    },
    async saveTokens({ access_token, refresh_token, expires_in, scope, issuer }) {
      if (!sendable.test(access_token)) throw new StepFailed('consent', 'The server issued a token that can’t be sent')
      checkLength('tokens', [access_token, refresh_token, scope])
      const before = visit ? undefined : await readToken(service, who)
      // A user who disconnects during the renewal stays disconnected.
      if (!visit && !before) return
      const isUsable = typeof expires_in === 'number' && expires_in > 0 && Number.isFinite(expires_in)
      const seconds = Math.min(isUsable ? expires_in : assumedSeconds, keepSeconds)
      const token: ConsentedToken = {
        access_token,
        expires_at: clock() + seconds * 1000,
        ...(refresh_token !== undefined && { refresh_token }),
        // RFC 6749, section 5.1: an omitted scope equals the requested or previous one.
        scopes: scope === undefined ? [...(before?.scopes ?? connector.scopes)] : splitScopes(scope),
        ...(issuer !== undefined && { issuer }),
        provider: who.provider,
      }
      await kv.set(consentKey(who), token, refresh_token === undefined ? seconds : keepSeconds)
    },
    redirectToAuthorization: (url) => void start?.redirect(url),
    saveCodeVerifier(verifier) {
      if (visit) visit.code_verifier = verifier
    },
    codeVerifier: () => visit?.code_verifier ?? '',
    // The library calls this before it uses the discovered endpoints.
    saveDiscoveryState(discovery) {
      checkDiscovery(discovery, connector)
      checkLength('metadata', discovery)
      if (visit) visit.discovery = discovery
    },
    discoveryState: () => visit?.discovery,
    async invalidateCredentials(what) {
      if (what === 'tokens' || what === 'all') await kv.delete(consentKey(who))
      // Servers drop registrations that weren't used for long; the next consent registers again.
      if (registration && (what === 'client' || what === 'all')) await kv.delete(registration)
    },
  }
}
