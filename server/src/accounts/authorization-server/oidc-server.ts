import type { EventEmitter } from 'node:events'
import type { ClientMetadata, Configuration, KoaContextWithOIDC, Provider as ProviderType } from 'oidc-provider'
import type { Service } from '../../kernel/foundation/service.ts'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import { resources, scope } from '../../kernel/http/protected-resources.ts'
import { type Failure, isUnavailable } from '../../kernel/lib/errors.ts'
import { revokeToken } from '../access/access.ts'
import { createOwnTokenVerifier, InvalidToken } from '../access/access-tokens.ts'
import { grantSeconds, signInOfGrant, signInOfSession } from '../access/records.ts'
import type { SigningKeys } from '../access/signing-keys.ts'
import { fetchDocument, keepDocument, offersClientDocuments } from './clients/client-documents.ts'
import { checkNewClient, knownScopes, leaveOutUnknown } from './clients/new-clients.ts'
import { dashboardClientId, isOwnClient, ownClients } from './clients/own-clients.ts'
import { findRedirectProblem, isNative } from './clients/redirect-uris.ts'
import { findSignedInUser, loadGrant, organizationOf, recordRevocation } from './grants.ts'
import { createKvAdapter } from './kv-adapter.ts'
import { errors, interactionPolicy, Provider } from './library.ts'
import { finishLogout, showLoggedOut, showLogout } from './logout.ts'
import { deriveSuccessors } from './refresh-tokens.ts'

const accessTokenSeconds = 60 * 60
const longestAssertionSeconds = 60 * 60
const day = 24 * 60 * 60
const sessionSeconds = 14 * day

/**
 * OAuth 2.1 for users of this installation: the authorization code flow with PKCE, and no other. The library calls an
 * authorization server a provider.
 */
export function createOidcServer(service: Service, key: Awaited<ReturnType<SigningKeys['current']>>): ProviderType {
  const { config, secrets, log } = service
  const { publicUrl } = config
  const isSecure = config.mode === 'production'
  const whole = resources(publicUrl)

  const configuration: Configuration = {
    adapter: createKvAdapter(service),
    clients: ownClients(publicUrl),
    jwks: { keys: [{ ...key.privateKey.export({ format: 'jwk' }), kid: key.kid, use: 'sig', alg: 'EdDSA' }] as never },
    routes: {
      authorization: '/oauth/authorize',
      token: '/oauth/token',
      revocation: '/oauth/revoke',
      registration: '/oauth/register',
      jwks: '/oauth/jwks',
      end_session: '/oauth/logout',
    },
    cookies: {
      names: {
        session: isSecure ? '__Host-inlay-session' : 'inlay-session',
        // These two cookies are scoped to the path of one sign-in, so that concurrent sign-ins don't interfere.
        interaction: isSecure ? '__Secure-inlay-interaction' : 'inlay-interaction',
        resume: isSecure ? '__Secure-inlay-resume' : 'inlay-resume',
      },
      long: { httpOnly: true, sameSite: 'lax', path: '/', secure: isSecure, signed: true },
      short: { httpOnly: true, sameSite: 'lax', secure: isSecure, signed: true },
      keys: secrets.derive('oauth cookies').map((derived) => derived.key.toString('base64url')),
    },
    scopes: knownScopes,
    // The dashboard names the organization to work in by its slug.
    extraParams: ['organization'],
    responseTypes: ['code'],
    pkce: { required: () => true },
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
    clientDefaults: {
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      id_token_signed_response_alg: 'EdDSA',
      token_endpoint_auth_method: 'client_secret_basic',
    },
    extraClientMetadata: {
      properties: ['redirect_uris'],
      validator(ctx: KoaContextWithOIDC | undefined, _, __, metadata) {
        leaveOutUnknown(metadata)
        // Without a context, the client was loaded from the store, where older clients may exceed the limits.
        if (ctx || isClientAddress(metadata.client_id)) checkNewClient(metadata)
        checkClient(metadata)
      },
    },
    async assertJwtClientAuthClaimsAndHeader(_, { exp }) {
      // Each assertion's id is stored until the assertion expires, to detect replays.
      if (Number(exp) > Date.now() / 1000 + longestAssertionSeconds) {
        throw new errors.InvalidClientAuth('the client_assertion must expire within an hour')
      }
    },
    allowOmittingSingleRegisteredRedirectUri: false,
    enabledJWA: { idTokenSigningAlgValues: ['EdDSA'] },
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      rpInitiatedLogout: {
        enabled: true,
        // `finish` below renders the page, including for visitors who aren't signed in.
        logoutSource: () => undefined,
        postLogoutSuccessSource: (ctx) => showLoggedOut(service, ctx),
      },
      userinfo: { enabled: false },
      revocation: {
        enabled: true,
        async allowedPolicy(_, client, token) {
          if (token.clientId !== client.clientId) return false
          // Recorded here, because the library deletes the grant right after.
          await recordRevocation(service, client, (token as { grantId?: string }).grantId)
          return true
        },
      },
      registration: { enabled: true, issueRegistrationAccessToken: false },
      clientIdMetadataDocument: {
        enabled: config.clientMetadataDocuments !== 'off',
        ack: 'draft-02',
        cacheDuration: { min: 300, max: day },
      },
      resourceIndicators: {
        enabled: true,
        defaultResource: async (_, __, oneOf) => (oneOf as string[] | undefined) ?? publicUrl,
        getResourceServerInfo(_, resource) {
          if (!isResource(resource)) throw new errors.InvalidTarget()
          const jwt = { sign: { alg: 'EdDSA' as const, kid: key.kid } }
          return { scope, audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: accessTokenSeconds, jwt }
        },
      },
    },
    formats: {
      customizers: {
        // A token requested without a resource is valid for all resources.
        jwt(_, __, { payload }) {
          if (payload.aud === publicUrl) payload.aud = Object.values(whole)
        },
      },
    },
    ttl: {
      AccessToken: accessTokenSeconds,
      AuthorizationCode: 60,
      // The dashboard is issued a grant each time it's opened.
      Grant: (_, { clientId }) => (clientId === dashboardClientId ? sessionSeconds : grantSeconds),
      IdToken: accessTokenSeconds,
      Interaction: 60 * 60,
      RefreshToken: (_, { clientId }) => (clientId === dashboardClientId ? sessionSeconds : 30 * day),
      // An anonymous session lasts as long as a page may stay open.
      Session: (_, { accountId }) => (accountId ? sessionSeconds : 60 * 60),
    },
    rotateRefreshToken: true,
    expiresWithSession: async () => false,
    issueRefreshToken: async (_, client) => client.grantTypeAllowed('refresh_token'),
    revokeGrantPolicy: () => true,
    interactions: { policy: createPolicy(), url: (_, { uid }) => `/oauth/interaction/${uid}` },
    loadExistingGrant: (ctx) => loadGrant(service, ctx),
    // Redeeming a code or refresh token checks the membership again: a removed member gets no new tokens.
    async findAccount({ oidc }, accountId, token) {
      const { Grant, Session } = oidc.entities
      const signIn = token ? signInOfGrant(Grant) : Session && signInOfSession(Session)
      const user = await findSignedInUser(service, accountId, signIn, token && organizationOf(Grant))
      return user && { accountId, claims: () => ({ sub: accountId }) }
    },
    extraTokenClaims({ oidc }, token) {
      const organizationId = organizationOf(oidc.entities.Grant)
      return { grant_id: (token as { grantId?: string }).grantId, ...(organizationId && { org_id: organizationId }) }
    },
    clientBasedCORS: (_, origin, client) =>
      client.clientAuthMethod === 'none' &&
      (client.redirectUris ?? []).some((uri: string) => URL.parse(uri)?.origin === origin),
    renderError(ctx, { error, error_description }) {
      ctx.set(pageHeaders)
      ctx.body = page(
        'Sign-in failed',
        `<h1>Sign-in failed</h1>
         <p>Go back to the app that you came from and try again.</p>
         <p><code>${escapeHtml(error)}</code> ${escapeHtml(error_description ?? '')}</p>`,
      )
    },
    fetch: (address, init) => fetchDocument(service, address as string | URL, init as RequestInit),
    fetchResponseBodyLimits: { jwks_uri: 64 * 1024, sector_identifier_uri: 64 * 1024 },
  }

  const isResource = (resource: string) => resource === publicUrl || Object.values(whole).includes(resource)
  const provider = new Provider(publicUrl, configuration)
  provider.proxy = true
  deriveSuccessors(provider, service)
  spellResources(provider, isResource)
  const report = (error: unknown) => log.error({ err: error }, 'authorization server failed')
  provider.on('server_error', (ctx, error) => {
    report(error)
    if (!isUnavailable(error) || ctx.status < 500) return
    ctx.status = 503
    ctx.set((error as unknown as Failure).headers)
  })
  // Without a listener, Koa writes errors to the console.
  ;(provider as EventEmitter).on('error', report)
  const finish: Record<string, (ctx: KoaContextWithOIDC) => unknown> = {
    discovery: (ctx) => describeServer(service, ctx.body as Record<string, unknown>),
    token: (ctx) => keepDocument(service, ctx),
    revocation: (ctx) => revokeAccessToken(service, ctx),
    end_session: (ctx) => showLogout(service, ctx),
    end_session_confirm: (ctx) => finishLogout(service, ctx),
  }
  provider.use(async (ctx, next) => {
    await next()
    if (ctx.oidc) await finish[ctx.oidc.route]?.(ctx as unknown as KoaContextWithOIDC)
  })
  return provider
}

async function describeServer(service: Service, metadata: Record<string, unknown>): Promise<void> {
  metadata.response_modes_supported = ['query']
  if (!(await offersClientDocuments(service))) delete metadata.client_id_metadata_document_supported
}

/** The library has authenticated the client but only revokes refresh tokens. Tokens of other clients are ignored. */
async function revokeAccessToken(service: Service, ctx: KoaContextWithOIDC): Promise<void> {
  if ((ctx.body as { error?: string } | undefined)?.error !== 'unsupported_token_type') return
  const text = String(ctx.oidc.params?.token)
  const token = await createOwnTokenVerifier(service)(text).catch((error) => {
    if (!(error instanceof InvalidToken)) throw error
    return undefined
  })
  if (token?.client_id && token.client_id === ctx.oidc.client?.clientId) {
    await revokeToken(service, token)
  }
  ctx.status = 200
  ctx.body = ''
}

/**
 * Some clients append a slash to a resource. The library compares resources as strings, so they are normalized as soon
 * as a request's parameters are set.
 */
function spellResources({ OIDCContext }: ProviderType, isResource: (text: string) => boolean): void {
  const parameters = new WeakMap<object, { resource?: string | string[] }>()
  const spell = (text: string) => (text.endsWith('/') && isResource(text.slice(0, -1)) ? text.slice(0, -1) : text)
  Object.defineProperty(OIDCContext.prototype, 'params', {
    get() {
      return parameters.get(this)
    },
    set(params: { resource?: string | string[] }) {
      const { resource } = params
      if (Array.isArray(resource)) params.resource = [...new Set(resource.map(spell))]
      else if (resource) params.resource = spell(resource)
      parameters.set(this, params)
    },
  })
}

function createPolicy() {
  const policy = interactionPolicy.base()
  const isGone = new interactionPolicy.Check('person_gone', 'The user no longer exists', ({ oidc }) => !oidc.account)
  policy.get('login')?.checks.add(isGone)
  return policy
}

/** Whether the client ID is the URL of a client metadata document. */
const isClientAddress = (clientId: unknown) => typeof clientId === 'string' && clientId.startsWith('https://')

function checkClient(metadata: ClientMetadata): void {
  const uris = [metadata.redirect_uris ?? []].flat()
  const afterLogout = [metadata.post_logout_redirect_uris ?? []].flat()
  if (uris.length > 20 || afterLogout.length > 20)
    throw new errors.InvalidClientMetadata('redirect_uris must not contain more than 20 URIs')
  for (const uri of uris) {
    const problem = findRedirectProblem(uri)
    if (problem) throw new errors.InvalidClientMetadata(problem)
  }
  for (const uri of afterLogout) {
    const problem = findRedirectProblem(uri)
    if (problem) throw new errors.InvalidClientMetadata(`post_logout_${problem}`)
  }
  // Many native programs register without `application_type`; it lets them choose their loopback port.
  const isProgram = !isOwnClient(metadata.client_id) && uris.some((uri) => isNative(String(uri)))
  if (isProgram) metadata.application_type = 'native'
  metadata.response_modes = ['query']
}
