import type { UserCaller } from '../../kernel/foundation/caller.ts'
import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { cleanName } from '../../kernel/lib/names.ts'
import { canonicalEmail } from '../../kernel/net/email-addresses.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { claimMemberships } from '../../organizations/directories/claims.ts'
import { listOrganizations } from '../../organizations/organizations/organizations.ts'
import { isEmailVerified } from '../../visitors/identity-provider/verified-emails.ts'
import type * as contract from './contract.ts'

/** A user's identity as their sign-in provider asserts it. Local accounts have the issuer `local`. */
export interface Identity {
  issuer: string
  subject: string
  email: string
  email_verified: boolean
  name: string
  avatar_url: string
}

export const localIssuer = 'local'

/** Reads the claims of a verified token. Undefined without a subject or an email address. */
export function readIdentity(issuer: string, claims: Record<string, unknown>): Identity | undefined {
  const text = (name: string) => {
    const value = claims[name]
    // PostgreSQL can't store NUL or lone surrogates.
    return typeof value === 'string' && value.isWellFormed() && !value.includes('\0') ? value : ''
  }
  const [subject, email] = [text('sub'), text('email')]
  if (!subject || !email) return undefined
  return {
    issuer,
    subject,
    email,
    email_verified: isEmailVerified(issuer, claims),
    // A sign-in must not fail because of a profile, so an invalid name is cleaned instead of refused.
    name: cleanName(text('name'), 200) || email,
    avatar_url: text('picture'),
  }
}

export interface User {
  id: string
  email: string
  name: string
  /** Incremented whenever all sessions of the user are ended. */
  session_generation: number
}

/** Finds a user by (issuer, subject), or adds them, and updates their profile. */
export async function signIn(service: Service, identity: Identity): Promise<User> {
  const { user, isChanged } = await service.database.asService((sql) => saveUser(sql, identity))
  if (isChanged) service.changes.announce(topics.user(user.id))
  await claimMemberships(service, user)
  return user
}

/** The part of a sign-in that needs a transaction. */
export async function saveUser(sql: Sql, identity: Identity): Promise<{ user: User; isChanged: boolean }> {
  const { issuer, subject, email_verified, name, avatar_url } = identity
  const email = canonicalEmail(identity.email)
  const [found] = await sql<User & { changed: boolean }>`
      insert into users (id, issuer, subject, email, email_verified, name, avatar_url)
      values (${newId()}, ${issuer}, ${subject}, ${email}, ${email_verified}, ${name}, ${avatar_url})
      on conflict (issuer, subject) do update set
        email = excluded.email, email_verified = excluded.email_verified, name = excluded.name,
        avatar_url = excluded.avatar_url,
        updated_at = case when (users.email, users.email_verified, users.name, users.avatar_url)
                            is distinct from (excluded.email, excluded.email_verified, excluded.name, excluded.avatar_url)
                          then now() else users.updated_at end
      returning id, email, name, session_generation, updated_at = now()::timestamptz(3) as changed`
  if (!found) throw new Error('An upsert returned no row')
  const { changed, ...user } = found
  return { user, isChanged: changed }
}

export async function getMe(service: Service, caller: UserCaller): Promise<Output<typeof contract.getMe>> {
  const organizations = await listOrganizations(service, caller)
  return {
    ...caller.user,
    organizations: organizations.map(({ id, name, slug, role }) => ({ id, name, slug, role })),
  }
}
