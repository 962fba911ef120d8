import type { HttpExchange, Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { InvalidOrigin, matchesOrigin, parseOrigin } from '../../kernel/net/origins.ts'
import { type Refusal, recordRefusal } from '../../organizations/diagnostics/refusals.ts'
import { endUserActivity } from '../end-users/end-users.ts'
import type { Identities } from '../end-users/identities.ts'
import { IdTokenRefused } from '../identity-provider/id-tokens.ts'
import { InvalidIdentityProvider, type TrustedIssuer, trustedIssuer } from '../identity-provider/issuers.ts'
import { keyUse, unallowedOrigins } from '../publishable-keys/key-activity.ts'
import { allowedOrigins, type KeyLookup, type LiveKey } from '../publishable-keys/key-lookup.ts'
import { findSite, siteVisits } from '../sites/sites.ts'
import { type exchangeTicket as contract, ticketFailure } from './contract.ts'
import { type FrameProof, readFrameProof } from './frames.ts'
import { isPreviewToken, type PreviewTokens } from './preview-tokens.ts'
import { type TicketEndUser, type TicketHolder, type Tickets, ticketSeconds } from './signed-tickets.ts'
import { checkStanding, fingerprintIdentityProvider } from './standing.ts'

type Needs = Service & {
  keyLookup: KeyLookup
  identities: Identities
  tickets: Tickets
  previewTokens: PreviewTokens
}

/**
 * Runs the checks of an exchange in order. Each refusal is recorded for the administrator of the key's organization.
 * Cached values are used without an await, so an exchange for an anonymous visitor usually runs synchronously.
 */
export async function exchangeTicket(
  service: Needs,
  _caller: undefined,
  { publishable_key, id_token, embedding_origin }: Input<typeof contract>,
  http: HttpExchange,
): Promise<Output<typeof contract>> {
  const key = service.keyLookup.known(publishable_key) ?? (await requireLiveKey(service, publishable_key))
  try {
    if (id_token !== undefined && isPreviewToken(id_token)) {
      return issue(service, await requirePreview(service, key, id_token, [http.origin, embedding_origin]))
    }
    const origin = requireOrigin(service, key, http.origin, embedding_origin)
    if (http.origin) http.allowOrigin(http.origin)
    const endUser = id_token === undefined ? undefined : await requireEndUser(service, key, id_token)
    const frame =
      http.proof !== undefined && id_token !== undefined && http.origin === service.config.publicUrl
        ? await readFrameProof(service, http.proof, id_token)
        : undefined
    const siteId = origin && ((key.siteIds.get(origin) ?? (await lookUpSite(service, key, origin))) || undefined)
    noteUse(service, key, origin, siteId)
    const holder = {
      organization_id: key.organization_id,
      publishable_key_id: key.id,
      origin,
      site_id: siteId,
      end_user: endUser,
    }
    return issue(service, holder, frame)
  } catch (error) {
    throw keepRefusal(service, key, error, tellOrigin(service, http.origin, embedding_origin) ?? http.origin)
  }
}

function issue({ tickets }: Needs, holder: TicketHolder, frame?: FrameProof): Output<typeof contract> {
  const { ticket, expiresAt } = tickets.issue({ ...holder, frame_key: frame?.thumbprint }, frame?.ticketId)
  return {
    ticket,
    userId: holder.end_user?.id ?? holder.publishable_key_id,
    orgId: holder.organization_id,
    expiresAt,
    expiresIn: ticketSeconds,
  }
}

/** A check that refused the caller: `failure` is for the caller, `refusal` for the administrator. */
class TicketRefused extends Error {
  readonly failure: Failure
  readonly refusal: Refusal

  constructor(step: string, failure: Failure, about: { message: string } & Partial<Refusal>) {
    super(about.message)
    this.failure = failure
    this.refusal = { surface: 'ticket', step, code: failure.envelope.code, ...about }
  }
}

function keepRefusal(service: Service, key: LiveKey, error: unknown, origin: string | undefined): unknown {
  if (!(error instanceof TicketRefused)) return error
  const refusal = { ...error.refusal, origin: origin?.slice(0, 300), publishable_key_id: key.id }
  recordRefusal(service, key.organization_id, refusal)
  return error.failure
}

async function requireLiveKey({ keyLookup, metrics }: Needs, text: string): Promise<LiveKey> {
  const key = await keyLookup.find(text)
  if (key) return key
  // Only counted, because an unknown key has no organization whose administrator could see the refusal.
  metrics.countRefusal('ticket', 'INVALID_KEY')
  throw ticketFailure('INVALID_KEY')
}

/**
 * The embedding page's origin. The `Origin` header takes precedence over the body, so that a page can't choose its
 * origin. Our own frame is the exception: its header has our origin, and it sends the embedding page's in the body.
 */
const tellOrigin = ({ config }: Service, header: string | undefined, body: string | undefined): string | undefined =>
  header !== undefined && header !== config.publicUrl ? header : body

function requireOrigin(
  service: Needs,
  key: LiveKey,
  header: string | undefined,
  body: string | undefined,
): string | undefined {
  const text = tellOrigin(service, header, body)
  const known = text && key.origins.get(text)
  if (known) return known
  const origin = text === undefined ? undefined : readOrigin(text)
  requireAllowedOrigin(key, origin)
  if (text && origin) key.origins.set(text, origin)
  return origin
}

function readOrigin(text: string): string | undefined {
  try {
    return parseOrigin(text)
  } catch (error) {
    if (!(error instanceof InvalidOrigin)) throw error
    return undefined
  }
}

function requireAllowedOrigin(key: LiveKey, origin: string | undefined): void {
  const allowed = allowedOrigins(key)
  if (allowed.length === 0 || (origin !== undefined && matchesOrigin(origin, allowed))) return
  throw new TicketRefused('origin', ticketFailure('ORIGIN_NOT_ALLOWED'), {
    message: 'The page’s origin isn’t allowed. Add it to the key’s allowed origins, or embed the widget elsewhere.',
    expected: allowed.join(', '),
    seen: origin ?? 'no origin',
  })
}

async function requireEndUser(
  { identities, activity, config }: Needs,
  key: LiveKey,
  idToken: string,
): Promise<TicketEndUser> {
  const trusted = requireProvider(key, config.mode)
  const { endUserId, identity } = await identities.recognise(key.organization_id, idToken, trusted).catch((error) => {
    if (isFull(error)) throw new TicketRefused('plan', error, { message: error.message })
    if (!(error instanceof IdTokenRefused)) throw error
    const { step, message, expected, seen } = error
    throw new TicketRefused(step, ticketFailure(error.code, {}, error), {
      surface: 'id_token',
      message,
      expected,
      seen,
    })
  })
  activity.note(endUserActivity, key.organization_id, endUserId)
  return {
    id: endUserId,
    verified_email: identity.email_verified && identity.email ? identity.email : undefined,
    identity_expires_at: identity.expires_at,
    provider: fingerprintIdentityProvider(key.provider, trusted),
  }
}

function requireProvider({ provider }: LiveKey, mode: 'development' | 'production'): TrustedIssuer {
  const refuse = (message: string) =>
    new TicketRefused('provider', ticketFailure('IDP_NOT_CONFIGURED'), { surface: 'id_token', message })
  try {
    const trusted = trustedIssuer(provider, mode)
    if (!trusted) throw refuse('The widget sends ID tokens, but no identity provider is configured.')
    if (trusted.audiences === null && mode === 'production') {
      throw refuse(
        'Allowed audiences are not set, so tokens for any application would be accepted. Add your client IDs.',
      )
    }
    return trusted
  } catch (error) {
    throw error instanceof InvalidIdentityProvider ? refuse(error.message) : error
  }
}

/**
 * A member's preview in the dashboard. Its page is on Inlay's own origin, which the key doesn't have to allow, and it's
 * neither a use of the key nor of a site.
 */
async function requirePreview(
  service: Needs,
  key: LiveKey,
  token: string,
  origins: readonly (string | undefined)[],
): Promise<TicketHolder> {
  const { publicUrl } = service.config
  const refuse = (step: string, code: 'INVALID_TOKEN' | 'TOKEN_EXPIRED' | 'ORIGIN_NOT_ALLOWED', message: string) =>
    new TicketRefused(step, ticketFailure(code), { surface: 'id_token', message })
  if (origins.some((origin) => origin !== publicUrl))
    throw refuse('preview_origin', 'ORIGIN_NOT_ALLOWED', 'A preview token only works in Inlay’s own dashboard.')
  const preview = service.previewTokens.open(token)
  if (!preview) throw refuse('signature', 'INVALID_TOKEN', 'The preview token wasn’t issued by this server.')
  if (preview.publishable_key_id !== key.id)
    throw refuse('audience', 'INVALID_TOKEN', 'The preview token is for another publishable key.')
  const { end_user } = preview
  if (end_user.identity_expires_at <= service.clock())
    throw refuse('expiry', 'TOKEN_EXPIRED', 'The preview token has expired. Reload the page Try it.')
  const holder: TicketHolder = {
    organization_id: key.organization_id,
    publishable_key_id: key.id,
    origin: publicUrl,
    site_id: undefined,
    end_user,
  }
  const [[standing], isSignedIn] = await Promise.all([
    checkStanding(service, key.organization_id, [holder]),
    service.previewTokens.isSignedIn(end_user.previewer?.grant_id),
  ])
  if (standing !== 'stands' || !isSignedIn)
    throw refuse('member', 'INVALID_TOKEN', 'The member who started the preview has left or signed out.')
  return holder
}

/** An origin that no administrator allowed has no site, which is cached as an empty id. */
async function lookUpSite({ database }: Service, key: LiveKey, origin: string): Promise<string> {
  const siteId = (await database.asOrg(key.organization_id, (sql) => findSite(sql, origin))) ?? ''
  key.siteIds.set(origin, siteId)
  return siteId
}

const isFull = (error: unknown): error is Failure =>
  error instanceof Failure && error.envelope.code === 'PAYMENT_REQUIRED'

function noteUse(
  { activity }: Service,
  { id, organization_id }: LiveKey,
  origin: string | undefined,
  siteId: string | undefined,
): void {
  activity.note(keyUse, organization_id, id)
  if (siteId) activity.note(siteVisits, organization_id, siteId)
  else if (origin) activity.note(unallowedOrigins, organization_id, `${id} ${origin}`, { keyId: id, origin })
}
