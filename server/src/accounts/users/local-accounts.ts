import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { canonicalEmail } from '../../kernel/net/email-addresses.ts'
import { type Database, isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { directoryIssuer } from '../../organizations/organizations/members.ts'
import { hashPassword } from './passwords.ts'
import { recordForUser } from './user-trail.ts'
import { localIssuer, type User } from './users.ts'

export class EmailTaken extends Error {
  override name = 'EmailTaken'
}

/** Adds an account with a verified email address: the caller vouches for it. The password can be set later. */
export async function addLocalUser(
  { database }: Pick<Service, 'database'>,
  account: { email: string; name: string; password?: string },
): Promise<User> {
  const { email, name, password } = account
  const passwordHash = password === undefined ? null : await hashPassword(password)
  return database.asService((sql) => insertLocalUser(sql, { email, name, passwordHash, isVerified: true }))
}

/** Adds an account in the caller's transaction. */
export async function insertLocalUser(
  sql: Sql,
  account: { email: string; name: string; passwordHash: string | null; isVerified: boolean },
): Promise<User> {
  const email = canonicalEmail(account.email)
  try {
    const [user] = await sql<User>`
      insert into users (id, issuer, subject, email, email_verified, name, password_hash)
      values (${newId()}, ${localIssuer}, ${email}, ${email}, ${account.isVerified}, ${account.name}, ${account.passwordHash})
      returning id, email, name, session_generation`
    return user as User
  } catch (error) {
    throw isUniqueViolation(error) ? new EmailTaken(`An account for ${email} already exists`, { cause: error }) : error
  }
}

export async function findUserByEmail(
  { database }: Pick<Service, 'database'>,
  email: string,
): Promise<User | undefined> {
  const users = await database.asService(
    (sql) => sql<User>`
      select id, email, name, session_generation from users
      where email = ${canonicalEmail(email)} and issuer <> ${directoryIssuer} order by issuer = ${localIssuer} desc, id`,
  )
  return users[0]
}

export interface LocalAccount extends User {
  password_hash: string | null
}

export async function findLocalAccount(
  { database }: Pick<Service, 'database'>,
  email: string,
): Promise<LocalAccount | undefined> {
  const [account] = await database.asService(
    (sql) => sql<LocalAccount>`
      select id, email, name, session_generation, password_hash from users
      where issuer = ${localIssuer} and subject = ${canonicalEmail(email)}`,
  )
  return account
}

type KnownPassword = Pick<LocalAccount, 'id' | 'password_hash'>

/**
 * Ends all sessions of the user, and verifies the address: the link to set a password only goes to its owner. Returns
 * false if another password was set since the account was read. `proven` means that the address wasn't verified before:
 * somebody else may have used the account, so their choice of a name goes, and the owner should see the memberships.
 */
export async function changePassword(
  { database, changes }: Pick<Service, 'database' | 'changes'>,
  account: KnownPassword,
  password: string,
): Promise<'changed' | 'proven' | false> {
  const outcome = await storePassword(database, account, password, { endedSessions: 1 })
  if (outcome) changes.announce(topics.user(account.id))
  return outcome
}

/** Hashes the same password again with the current parameters. */
export const renewHash = ({ database }: Pick<Service, 'database'>, account: KnownPassword, password: string) =>
  storePassword(database, account, password, { endedSessions: 0 })

async function storePassword(
  database: Database,
  { id, password_hash }: KnownPassword,
  password: string,
  { endedSessions }: { endedSessions: 0 | 1 },
): Promise<'changed' | 'proven' | false> {
  const fresh = await hashPassword(password)
  return database.asService(async (sql) => {
    const changed = await sql<{ was_verified: boolean }>`
      update users
      set password_hash = ${fresh}, session_generation = session_generation + ${endedSessions}, updated_at = now(),
          email_verified = email_verified or ${endedSessions === 1},
          name = case when email_verified or ${endedSessions === 0} then name else email end
      where id = ${id} and issuer = ${localIssuer} and password_hash is not distinct from ${password_hash}
      returning (select email_verified from users before where before.id = users.id) as was_verified`
    // Somebody else may have set up the account, and could otherwise keep its owner out.
    if (endedSessions && changed[0]?.was_verified === false) {
      await sql`delete from second_factors where id = ${id}`
      await sql`delete from passkeys where user_id = ${id}`
    }
    if (changed.length > 0 && endedSessions) await recordForUser(sql, id, { action: 'user.password_changed' })
    if (changed.length === 0) return false
    return endedSessions && changed[0]?.was_verified === false ? 'proven' : 'changed'
  })
}
