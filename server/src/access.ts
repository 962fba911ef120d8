import { accessDenied, authRequired, Failure, orgContextRequired } from './errors.ts'
import { BoundedMap } from './lib/bounded-map.ts'
import { isId } from './lib/ids.ts'
import { fingerprint } from './lib/secrets.ts'
import { type AccessToken, createTokenVerifier, InvalidToken, scope } from './oauth/access-tokens.ts'
import { challenge } from './oauth/protected-resources.ts'
import { findRecord, markEnded, type SignIn, signInOfGrant } from './oauth/records.ts'
import type { Access } from './operation.ts'
import type { Role } from './organizations/contract.ts'
import type { Service } from './service.ts'

/** A signed-in person, and the organization that the token speaks for. */
export interface Caller {
  user: { id: string; email: string; name: string; avatar_url: string }
  /** Whether whoever signed them in vouches for the address. */
  email_verified: boolean
  token: Pick<VerifiedToken, 'expires_at' | 'organization_id' | 'sign_in'> & { fingerprint: string }
  organization?: { id: string; name: string; slug: string }
  role?: Role
}

/** The sign-in is missing from tokens that did not come from one, such as the operator's. */
type VerifiedToken = AccessToken & { sign_in?: SignIn | undefined }

export type OrgCaller = Caller & Required<Pick<Caller, 'organization' | 'role'>>

export type CallerOf<A extends Access> = A extends 'public' ? undefined : A extends 'user' ? Caller : OrgCaller

/** A node that missed a message on the bus asks again after this long: the bound on how long a removed member lives on. */
const rememberMs = 30_000
const rememberedTokens = 10_000
const rememberedPeople = 10_000
const clockSkewMs = 60_000

/** Events on the bus that make nodes forget. */
export const membershipChanged = 'membership-changed'
const tokenRevoked = 'token-revoked'
const sessionEnded = 'session-ended'

export interface AccessControl {
  /** `audience` is the resource the request is for: a token for another one is no token here. */
  check(authorization: string | undefined, access: Access, audience: string): Promise<Caller | undefined>
}

/** A token that was good, and whom it last stood for. */
interface KnownToken {
  token: VerifiedToken
  fingerprint: string
  checkedAt: number
  person?: Person
  caller?: Caller
}

export async function createAccess(service: Service): Promise<AccessControl> {
  const { clock, kv, bus } = service
  const verify = await createTokenVerifier(service)
  // By the header as it comes: to hash a token takes longer than all the rest of a check, and it stays in the process.
  const tokens = new BoundedMap<string, KnownToken>(rememberedTokens)
  const people = new BoundedMap<string, Map<string, { person: Person; checkedAt: number }>>(rememberedPeople)
  await bus.subscribe<{ user_id: string }>(membershipChanged, ({ user_id }) => people.delete(user_id))
  await bus.subscribe<{ fingerprint: string }>(tokenRevoked, (message) =>
    tokens.deleteWhere((known) => known.fingerprint === message.fingerprint),
  )
  await bus.subscribe<{ session: string }>(sessionEnded, ({ session }) =>
    tokens.deleteWhere(({ token }) => token.sign_in?.session === session),
  )
  const isFresh = (known: { checkedAt: number } | undefined) =>
    known !== undefined && clock() - known.checkedAt < rememberMs

  async function learnToken(text: string): Promise<KnownToken> {
    const verified = await verify(text)
    const print = fingerprint(text)
    if (await kv.get(revokedTokenKey(print))) throw new InvalidToken('The token was revoked')
    const grant = verified.grant_id ? await findRecord(kv, 'Grant', verified.grant_id) : undefined
    if (verified.grant_id && !grant) throw new InvalidToken('The grant has ended')
    const known = { token: { ...verified, sign_in: signInOfGrant(grant) }, fingerprint: print, checkedAt: clock() }
    // In the usual spelling alone: one token must not fill the memory with spaces before it.
    tokens.set(`Bearer ${text}`, known)
    return known
  }

  async function learnPerson(userId: string, organizationId: string): Promise<Person | undefined> {
    const person = await loadPerson(service, userId, organizationId)
    // Only memberships are remembered: somebody just added must not be refused for half a minute.
    if (person && (person.role || organizationId === '')) {
      const places = people.get(userId) ?? new Map()
      if (places.size > 100) places.clear()
      people.set(userId, places.set(organizationId, { person, checkedAt: clock() }))
    }
    return person
  }

  async function findToken(authorization: string, audience: string): Promise<KnownToken> {
    const text = /^Bearer +(\S+)$/i.exec(authorization)?.[1]
    if (!text) throw refuse(audience, undefined, 'No bearer token')
    return learnToken(text).catch((error) => {
      throw error instanceof InvalidToken ? refuse(audience, 'invalid_token', error) : error
    })
  }

  return {
    async check(authorization = '', access, audience) {
      if (access === 'public') return undefined
      const remembered = tokens.get(authorization)
      const known = isFresh(remembered) ? (remembered as KnownToken) : await findToken(authorization, audience)
      const { token } = known
      const invalid = (cause: string) => refuse(audience, 'invalid_token', cause)
      if (token.expires_at + clockSkewMs <= clock()) throw invalid('The token has expired')
      if (!token.audience.includes(audience)) throw invalid(`The token is not for ${audience}`)
      if (token.scopes && !token.scopes.includes(scope)) throw refuse(audience, 'insufficient_scope')

      // A claim that is no id names no organization anybody could be a member of.
      const organizationId = token.organization_id && isId(token.organization_id) ? token.organization_id : ''
      const place = people.get(token.user_id)?.get(organizationId)
      const person = isFresh(place) ? place?.person : await learnPerson(token.user_id, organizationId)
      if (!person) throw invalid('The token names a person who no longer exists')
      if (token.sign_in && token.sign_in.generation !== person.session_generation)
        throw invalid('Their sessions were ended')
      if (!known.caller || known.person !== person) {
        known.person = person
        known.caller = describeCaller(known, person)
      }
      requireAccess(known.caller, access)
      return known.caller
    },
  }
}

function describeCaller({ token, fingerprint }: KnownToken, person: Person): Caller {
  const { expires_at, organization_id, sign_in } = token
  const { organization, role, session_generation, email_verified, ...user } = person
  return {
    user,
    email_verified,
    token: { fingerprint, expires_at, organization_id, sign_in },
    ...(organization && role && { organization, role }),
  }
}

/** Which organization, then which role, of somebody who is known. */
export function requireAccess(caller: Caller, access: Access): void {
  if (access === 'public' || access === 'user') return
  if (!caller.token.organization_id) throw orgContextRequired()
  if (!caller.role) throw accessDenied('You are not a member of this organization')
  if (access === 'admin' && caller.role !== 'admin') throw accessDenied('This needs the admin role')
}

/** Tells a client beside the envelope where it gets a token that is good for this. */
function refuse(audience: string, error?: 'invalid_token' | 'insufficient_scope', cause?: unknown): Failure {
  const { envelope } =
    error === 'insufficient_scope' ? accessDenied(`The token lacks the scope ${scope}`) : authRequired()
  return new Failure(envelope, { cause, headers: { 'www-authenticate': challenge(audience, error) } })
}

/** Ends a token before its time, on every node. */
export async function revokeToken(
  { kv, bus, clock }: Service,
  token: Pick<Caller['token'], 'expires_at' | 'fingerprint'>,
): Promise<void> {
  const secondsLeft = Math.ceil((token.expires_at + clockSkewMs - clock()) / 1000)
  if (secondsLeft > 0) await kv.set(revokedTokenKey(token.fingerprint), true, secondsLeft)
  await bus.publish(tokenRevoked, { fingerprint: token.fingerprint })
}

/** Ends a browser's session with everything that came from it, on every node. */
export async function endSession({ kv, bus }: Service, session: string): Promise<void> {
  await markEnded(kv, session)
  await bus.publish(sessionEnded, { session })
}

const revokedTokenKey = (print: string) => `revoked-token:${print}`

type Person = Caller['user'] & {
  email_verified: boolean
  session_generation: number
  organization: Caller['organization'] | null
  role: Role | null
}

async function loadPerson({ database }: Service, userId: string, organizationId: string): Promise<Person | undefined> {
  const [person] = await database.asUser(
    userId,
    (sql) => sql<Person>`
      select u.id, u.email, u.name, u.avatar_url, u.email_verified, u.session_generation, m.role,
             case when o.id is not null then jsonb_build_object('id', o.id, 'name', o.name, 'slug', o.slug) end as organization
      from users u
      left join members m on m.user_id = u.id and m.organization_id = ${organizationId || null}
      left join organizations o on o.id = m.organization_id
      where u.id = ${userId}`,
  )
  return person
}
