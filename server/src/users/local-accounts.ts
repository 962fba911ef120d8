import { newId } from '../lib/ids.ts'
import type { Service } from '../service.ts'
import { isUniqueViolation } from '../stores/database.ts'
import { hashPassword } from './passwords.ts'
import { localIssuer, type User } from './users.ts'

export class EmailTaken extends Error {
  override name = 'EmailTaken'
}

/** An account of this installation. Who adds it vouches for the address; the password may come later. */
export async function addLocalUser(
  { database }: Pick<Service, 'database'>,
  account: { email: string; name: string; password?: string },
): Promise<User> {
  const email = account.email.toLowerCase()
  const passwordHash = account.password === undefined ? null : await hashPassword(account.password)
  try {
    const [user] = await database.asService(
      (sql) => sql<User>`
        insert into users (id, issuer, subject, email, email_verified, name, password_hash)
        values (${newId()}, ${localIssuer}, ${email}, ${email}, true, ${account.name}, ${passwordHash})
        returning id, email, name`,
    )
    return user as User
  } catch (error) {
    throw isUniqueViolation(error)
      ? new EmailTaken(`There is an account for ${email} already`, { cause: error })
      : error
  }
}

export async function findUserByEmail(
  { database }: Pick<Service, 'database'>,
  email: string,
): Promise<User | undefined> {
  const users = await database.asService(
    (sql) => sql<User>`
      select id, email, name from users where email = ${email.toLowerCase()} order by issuer = ${localIssuer} desc, id`,
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
      select id, email, name, password_hash from users where issuer = ${localIssuer} and subject = ${email.toLowerCase()}`,
  )
  return account
}

/** False when the password has been changed in the meantime: the account is no longer the one that was looked at. */
export async function setPassword(
  { database }: Pick<Service, 'database'>,
  { id, password_hash }: Pick<LocalAccount, 'id' | 'password_hash'>,
  password: string,
): Promise<boolean> {
  const fresh = await hashPassword(password)
  const changed = await database.asService(
    (sql) => sql`
      update users set password_hash = ${fresh}, updated_at = now()
      where id = ${id} and issuer = ${localIssuer} and password_hash is not distinct from ${password_hash} returning id`,
  )
  return changed.length > 0
}
