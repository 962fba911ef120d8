import {
  type AccessControl,
  type Caller,
  type CallerToken,
  type CallingUser,
  requireAccess,
  type UserCaller,
} from '../../kernel/foundation/caller.ts'
import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Role } from '../../kernel/foundation/shapes.ts'
import { challenge, scope } from '../../kernel/http/protected-resources.ts'
import { accessDenied, authRequired, Failure, isUnavailable } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { FreshCache } from '../../kernel/stores/fresh-cache.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { createAccountLookup } from '../service-accounts/account-lookup.ts'
import { recordHappening } from '../users/user-trail.ts'
import { type AccessToken, clockToleranceMs, createTokenVerifier, InvalidToken } from './access-tokens.ts'
import type { logout as logoutContract } from './contract.ts'
import { findRecord, markEnded, readClientName, signInOfGrant } from './records.ts'

/** Tokens issued without a sign-in, such as those of the `inlay` command, have neither `sign_in` nor a client. */
type VerifiedToken = AccessToken & Pick<CallerToken, 'sign_in' | 'client_name'>

const cachedTokens = 10_000
const cachedHolders = 10_000
/** No known issuer's tokens are longer, and the HTTP server accepts little more for all headers together. */
const longestToken = 12_000

/** A verified token, and the caller it last resolved to. */
interface KnownToken {
  token: VerifiedToken
  /** Empty if the token names no organization, or none that could exist. */
  organizationId: string
  /** Key of its holder. */
  place: string
  holder?: TokenHolder
  caller?: Caller
}

export function createAccess(service: Service): AccessControl {
  const { changes, clock, kv } = service
  const verify = createTokenVerifier(service)
  const serviceAccounts = createAccountLookup(service)
  // Keyed by the header's text: hashing the token would take longer than the rest of the check.
  const tokens = new FreshCache<KnownToken>({
    changes,
    clock,
    limit: cachedTokens,
    topicsOf: ({ token: { id, grant_id, sign_in } }) => [
      topics.token(id),
      ...(grant_id ? [topics.grant(grant_id)] : []),
      ...(sign_in ? [topics.session(sign_in.session)] : []),
    ],
    // Revocations are written to the key-value store, so none can succeed while it is unavailable.
    isUnavailable,
  })
  const holders = new FreshCache<TokenHolder>({
    changes,
    clock,
    limit: cachedHolders,
    topicsOf: ({ id }) => [topics.user(id)],
    // Missing memberships aren't cached: a user who has just been added must not be refused for 30 seconds.
    isKept: ({ role, asked_for }) => role !== null || asked_for === '',
  })

  async function readToken(text: string): Promise<KnownToken> {
    const verified = await verify(text)
    if (await kv.get(revokedTokenKey(verified.id))) throw new InvalidToken('The token was revoked')
    const grant = verified.grant_id ? await findRecord(kv, 'Grant', verified.grant_id) : undefined
    if (verified.grant_id && !grant) throw new InvalidToken('The grant was revoked or has expired')
    const client_name = verified.client_id && (await readClientName(kv, verified.client_id))
    const token = { ...verified, sign_in: signInOfGrant(grant), client_name }
    const organizationId = token.organization_id && isId(token.organization_id) ? token.organization_id : ''
    return { token, organizationId, place: `${token.user_id} ${organizationId}` }
  }

  async function findToken(text: string, audience: string): Promise<KnownToken> {
    if (text.length > longestToken) throw refuse(audience, 'invalid_token', 'The token is too long')
    // Normalized, so that one token has one entry.
    return tokens
      .load(`Bearer ${text}`, () => readToken(text))
      .then((known) => known as KnownToken)
      .catch((error) => {
        throw error instanceof InvalidToken ? refuse(audience, 'invalid_token', error) : error
      })
  }

  /** Checks everything that can change between two uses of a token. */
  function findHolder(known: KnownToken, audience: string): Caller | Promise<Caller> {
    const { token, organizationId, place } = known
    const invalid = (cause: string) => refuse(audience, 'invalid_token', cause)
    if (token.expires_at + clockToleranceMs <= clock()) throw invalid('The token has expired')
    if (!token.audience.includes(audience)) throw invalid(`The token is not for ${audience}`)
    if (token.scopes && !token.scopes.includes(scope)) throw refuse(audience, 'insufficient_scope')

    const callerOf = (holder: TokenHolder | undefined): Caller => {
      if (!holder) throw invalid('The token names a user who no longer exists')
      if (token.sign_in && token.sign_in.generation !== holder.session_generation)
        throw invalid('All sessions of the user were ended')
      if (!known.caller || known.holder !== holder) {
        known.holder = holder
        known.caller = describeCaller(token, holder)
      }
      return known.caller
    }
    const holder = holders.get(place)
    if (holder) return callerOf(holder)
    return holders.load(place, () => loadTokenHolder(service, token.user_id, organizationId)).then(callerOf)
  }

  async function findServiceAccount(key: string, audience: string): Promise<Caller> {
    const caller = await serviceAccounts.find(key)
    if (!caller) throw refuse(audience, 'invalid_token', 'The service account’s key is unknown, deleted or expired')
    return caller
  }

  function identify(authorization: string, audience: string): Caller | Promise<Caller> {
    const known = tokens.get(authorization)
    if (known) return findHolder(known, audience)
    const text = /^Bearer +(\S+)$/i.exec(authorization)?.[1]
    if (!text) throw refuse(audience, undefined, 'No bearer token')
    if (text.startsWith('sk_')) return findServiceAccount(text, audience)
    return findToken(text, audience).then((found) => findHolder(found, audience))
  }

  return {
    async check(authorization = '', rule, audience) {
      if (rule.access === 'public') return undefined
      const caller = await identify(authorization, audience)
      requireAccess(caller, rule)
      return caller
    },
  }
}

function describeCaller(token: VerifiedToken, holder: TokenHolder): Caller {
  const { id, expires_at, organization_id, grant_id, client_id, client_name, sign_in } = token
  const { organization, role, session_generation, asked_for, email_verified, ...user } = holder
  return {
    id: user.id,
    actor: user.email,
    user,
    email_verified,
    token: { id, expires_at, organization_id, grant_id, client_id, client_name, sign_in },
    ...(organization && role && { organization, role }),
  }
}

/** Adds the `WWW-Authenticate` challenge, which tells clients where to get a token. */
function refuse(audience: string, error?: 'invalid_token' | 'insufficient_scope', cause?: unknown): Failure {
  const { envelope } =
    error === 'insufficient_scope' ? accessDenied(`The token lacks the scope ${scope}`) : authRequired()
  return new Failure(envelope, { cause, headers: { 'www-authenticate': challenge(audience, error) } })
}

/** Revokes a token before it expires, on every node. */
export async function revokeToken(
  { kv, changes, clock }: Service,
  { id, expires_at }: Pick<AccessToken, 'id' | 'expires_at'>,
): Promise<void> {
  const secondsLeft = Math.ceil((expires_at + clockToleranceMs - clock()) / 1000)
  if (secondsLeft > 0) await kv.set(revokedTokenKey(id), true, secondsLeft)
  changes.announce(topics.token(id))
}

/** Ends a browser's session and every token issued from it, on every node. */
export async function endSession({ kv, changes }: Service, session: string): Promise<void> {
  await markEnded(kv, session)
  changes.announce(topics.session(session))
}

export async function logout(service: Service, caller: UserCaller): Promise<Output<typeof logoutContract>> {
  await recordHappening(service, caller.user.id, { action: 'user.signed_out' })
  await revokeToken(service, caller.token)
  if (caller.token.sign_in) await endSession(service, caller.token.sign_in.session)
  return { success: true }
}

const revokedTokenKey = (id: string) => `revoked-token:${id}`

type TokenHolder = CallingUser & {
  email_verified: boolean
  session_generation: number
  organization: Caller['organization'] | null
  role: Role | null
  /** The organization that the membership was looked up in. */
  asked_for: string
}

async function loadTokenHolder(
  { database }: Service,
  userId: string,
  organizationId: string,
): Promise<TokenHolder | undefined> {
  const [holder] = await database.asUser(
    userId,
    (sql) => sql<Omit<TokenHolder, 'asked_for'>>`
      select u.id, u.email, u.name, u.avatar_url, u.email_verified, u.session_generation, m.role,
             case when o.id is not null then jsonb_build_object('id', o.id, 'name', o.name, 'slug', o.slug) end as organization
      from users u
      left join members m on m.user_id = u.id and m.organization_id = ${organizationId || null}
      left join organizations o on o.id = m.organization_id
      where u.id = ${userId}`,
  )
  return holder && { ...holder, asked_for: organizationId }
}
