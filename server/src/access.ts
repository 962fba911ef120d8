import { accessDenied, authRequired, Failure, orgContextRequired } from './errors.ts'
import { BoundedMap } from './lib/bounded-map.ts'
import { isId } from './lib/ids.ts'
import { fingerprint } from './lib/secrets.ts'
import { type AccessToken, createTokenVerifier, InvalidToken, scope } from './oauth/access-tokens.ts'
import { challenge } from './oauth/protected-resources.ts'
import { isGrantLive } from './oauth/records.ts'
import type { Access } from './operation.ts'
import type { Role } from './organizations/contract.ts'
import type { Service } from './service.ts'

/** A signed-in person, and the organization that the token speaks for. */
export interface Caller {
  user: { id: string; email: string; name: string; avatar_url: string }
  token: Pick<AccessToken, 'expires_at' | 'organization_id' | 'grant_id'> & { fingerprint: string }
  organization?: { id: string; name: string; slug: string }
  role?: Role
}

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

export interface AccessControl {
  /** `audience` is the resource the request is for: a token for another one is no token here. */
  check(authorization: string | undefined, access: Access, audience: string): Promise<Caller | undefined>
}

export async function createAccess(service: Service): Promise<AccessControl> {
  const { clock, kv, bus } = service
  const verify = await createTokenVerifier(service)
  const tokens = new BoundedMap<string, { token: AccessToken; checkedAt: number }>(rememberedTokens)
  const people = new BoundedMap<string, Map<string, { person: Person; checkedAt: number }>>(rememberedPeople)
  await bus.subscribe<{ user_id: string }>(membershipChanged, ({ user_id }) => people.delete(user_id))
  await bus.subscribe<{ fingerprint: string }>(tokenRevoked, (message) => tokens.delete(message.fingerprint))

  async function readToken(text: string, print: string): Promise<AccessToken> {
    const known = tokens.get(print)
    if (known && clock() - known.checkedAt < rememberMs) return known.token
    const token = await verify(text)
    if (await kv.get(revokedTokenKey(print))) throw new InvalidToken('The token was revoked')
    if (token.grant_id && !(await isGrantLive(kv, token.grant_id))) throw new InvalidToken('The grant has ended')
    tokens.set(print, { token, checkedAt: clock() })
    return token
  }

  async function readPerson(userId: string, organizationId: string): Promise<Person | undefined> {
    const known = people.get(userId)?.get(organizationId)
    if (known && clock() - known.checkedAt < rememberMs) return known.person
    const person = await loadPerson(service, userId, organizationId)
    // Only memberships are remembered: somebody just added must not be refused for half a minute.
    if (person && (person.role || organizationId === '')) {
      const places = people.get(userId) ?? new Map()
      if (places.size > 100) places.clear()
      people.set(userId, places.set(organizationId, { person, checkedAt: clock() }))
    }
    return person
  }

  return {
    async check(authorization, access, audience) {
      if (access === 'public') return undefined
      const text = authorization?.match(/^Bearer +(\S+)$/i)?.[1]
      if (!text) throw refuse(audience, undefined, 'No bearer token')
      const invalid = (cause: unknown) => refuse(audience, 'invalid_token', cause)
      const print = fingerprint(text)
      const token = await readToken(text, print).catch((error) => {
        throw error instanceof InvalidToken ? invalid(error) : error
      })
      if (token.expires_at + clockSkewMs <= clock()) throw invalid('The token has expired')
      if (!token.audience.includes(audience)) throw invalid(`The token is not for ${audience}`)
      if (token.scopes && !token.scopes.includes(scope)) throw refuse(audience, 'insufficient_scope')

      const organizationId = token.organization_id
      // A claim that is no id names no organization anybody could be a member of.
      const person = await readPerson(token.user_id, organizationId && isId(organizationId) ? organizationId : '')
      if (!person) throw invalid('The token names a person who no longer exists')
      const { organization, role, ...user } = person
      const caller: Caller = {
        user,
        token: {
          fingerprint: print,
          expires_at: token.expires_at,
          organization_id: organizationId,
          grant_id: token.grant_id,
        },
        ...(organization && role && { organization, role }),
      }
      if (access === 'user') return caller
      if (!organizationId) throw orgContextRequired()
      if (!caller.role) throw accessDenied('You are not a member of this organization')
      if (access === 'admin' && caller.role !== 'admin') throw accessDenied('This needs the admin role')
      return caller
    },
  }
}

/** Tells a client beside the envelope where it gets a token that is good for this. */
function refuse(audience: string, error?: 'invalid_token' | 'insufficient_scope', cause?: unknown): Failure {
  const { envelope } =
    error === 'insufficient_scope' ? accessDenied(`The token lacks the scope ${scope}`) : authRequired()
  return new Failure(envelope, { cause, headers: { 'www-authenticate': challenge(audience, error) } })
}

/** Ends a token before its time, on every node. */
export async function revokeToken({ kv, bus, clock }: Service, token: Caller['token']): Promise<void> {
  const secondsLeft = Math.ceil((token.expires_at + clockSkewMs - clock()) / 1000)
  if (secondsLeft > 0) await kv.set(revokedTokenKey(token.fingerprint), true, secondsLeft)
  await bus.publish(tokenRevoked, { fingerprint: token.fingerprint })
}

const revokedTokenKey = (print: string) => `revoked-token:${print}`

type Person = Caller['user'] & { organization: Caller['organization'] | null; role: Role | null }

async function loadPerson({ database }: Service, userId: string, organizationId: string): Promise<Person | undefined> {
  const [person] = await database.asUser(
    userId,
    (sql) => sql<Person>`
      select u.id, u.email, u.name, u.avatar_url, m.role,
             case when o.id is not null then jsonb_build_object('id', o.id, 'name', o.name, 'slug', o.slug) end as organization
      from users u
      left join members m on m.user_id = u.id and m.organization_id = ${organizationId || null}
      left join organizations o on o.id = m.organization_id
      where u.id = ${userId}`,
  )
  return person
}
