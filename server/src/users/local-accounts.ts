import { randomBytes, scrypt } from 'node:crypto'
import { promisify } from 'node:util'
import { newId } from '../lib/ids.ts'
import type { Service } from '../service.ts'
import { isUniqueViolation } from '../stores/database.ts'
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

const scryptAsync = promisify<string, Buffer, number, { N: number; r: number; p: number; maxmem: number }, Buffer>(
  scrypt,
)

/** `scrypt$N$r$p$salt$hash`, with the parameters in it so that they can be raised. */
async function hashPassword(password: string): Promise<string> {
  const cost = { N: 2 ** 15, r: 8, p: 3 }
  const salt = randomBytes(16)
  const hash = await scryptAsync(password.normalize('NFKC'), salt, 32, { ...cost, maxmem: 128 * 1024 * 1024 })
  return ['scrypt', cost.N, cost.r, cost.p, salt.toString('base64url'), hash.toString('base64url')].join('$')
}
