import { Secret, TOTP } from 'otpauth'
import type { Service } from '../../kernel/foundation/service.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import { recordForUser } from '../users/user-trail.ts'
import { beginAttempt, pairOf } from './attempts.ts'

/** An authenticator app that a user is setting up, until they enter its first code. */
interface Enrolment {
  userId: string
  /** Base32. */
  key: string
}

const enrolment = oneTime<Enrolment>('second-factor-enrolment', 15 * 60)

const periodSeconds = 30
const recoveryCodes = 10

/** The parameters that every authenticator app supports (RFC 6238). */
const totpOf = (key: string, label: string): TOTP =>
  new TOTP({ issuer: 'Inlay', label, secret: Secret.fromBase32(key), period: periodSeconds, digits: 6 })

const placeOf = (userId: string) => `second_factors.key_sealed:${userId}`

export interface SecondFactor {
  created_at: string
  /** Number of unused recovery codes. */
  codes_left: number
}

export async function findSecondFactor(
  { database }: Pick<Service, 'database'>,
  userId: string,
): Promise<SecondFactor | undefined> {
  const [factor] = await database.asService(
    (sql) => sql<SecondFactor>`
      select created_at, (select count(*) from recovery_codes where user_id = second_factors.id) as codes_left
      from second_factors where id = ${userId}`,
  )
  return factor
}

export interface NewKey {
  /** Identifies the enrolment in the form. */
  token: string
  key: string
  /** For the QR code. */
  uri: string
}

export async function beginEnrolment(
  { kv }: Pick<Service, 'kv'>,
  { id, email }: { id: string; email: string },
): Promise<NewKey> {
  const key = new Secret({ size: 20 }).base32
  return { key, uri: totpOf(key, email).toString(), token: await enrolment.issue(kv, { userId: id, key }) }
}

/** The key of a form that is shown again. */
export async function readEnrolment(
  { kv }: Pick<Service, 'kv'>,
  { id, email }: { id: string; email: string },
  token: string,
): Promise<NewKey | undefined> {
  const known = await enrolment.read(kv, token)
  return known?.userId === id ? { token, key: known.key, uri: totpOf(known.key, email).toString() } : undefined
}

/** Turns the second factor on, and returns the recovery codes. Undefined if the code is wrong, or one is on already. */
export async function finishEnrolment(
  service: Service,
  { id: userId }: { id: string },
  { token, code }: { token: string; code: string },
): Promise<string[] | undefined> {
  const { database, kv, secrets } = service
  const known = await enrolment.read(kv, token)
  const step = known?.userId === userId ? findStep(service, known.key, code) : undefined
  if (!known || step === undefined) return undefined
  const codes = Array.from({ length: recoveryCodes }, newRecoveryCode)
  const isAdded = await database.asService(async (sql) => {
    const added = await sql`
      insert into second_factors (id, key_sealed, last_step)
      values (${userId}, ${secrets.seal(known.key, placeOf(userId))}, ${step}) on conflict do nothing returning id`
    if (added.length === 0) return false
    await sql`
      insert into recovery_codes (user_id, code_hash)
      select ${userId}, hash from unnest(${codes.map(hashRecoveryCode)}::text[]) as n (hash)`
    await recordForUser(sql, userId, { action: 'user.second_factor_added' })
    return true
  })
  if (!isAdded) return undefined
  await enrolment.take(kv, token)
  return codes
}

export type CodeOutcome =
  | { is: 'right' }
  | { is: 'wrong'; waitSeconds: number; failures: number }
  | { is: 'paused'; waitSeconds: number }

/** Checks a code of the authenticator app, or a recovery code. Guesses are slowed down for the account as a whole. */
export async function checkCode(service: Service, userId: string, code: string): Promise<CodeOutcome> {
  const attempt = await beginAttempt(service, pairOf(userId, 'second factor'))
  if ('waitSeconds' in attempt) return { is: 'paused', waitSeconds: attempt.waitSeconds }
  try {
    const isRight = /^\d{6}$/.test(tidy(code))
      ? await takeCode(service, userId, tidy(code))
      : await takeRecoveryCode(service, userId, tidy(code))
    if (!isRight) return { is: 'wrong', ...(await attempt.fail()) }
    await attempt.succeed()
    return { is: 'right' }
  } finally {
    await attempt.end()
  }
}

/** Turns the second factor off. The caller has checked a code, or is the operator. */
export const removeSecondFactor = (
  { database }: Pick<Service, 'database'>,
  userId: string,
  actor?: string,
): Promise<boolean> =>
  database.asService(async (sql) => {
    const removed = await sql`delete from second_factors where id = ${userId} returning id`
    if (removed.length === 0) return false
    await recordForUser(sql, userId, { action: 'user.second_factor_removed', ...(actor && { actor }) })
    return true
  })

async function takeCode(service: Service, userId: string, code: string): Promise<boolean> {
  const { database, secrets } = service
  const [factor] = await database.asService(
    (sql) => sql<{ key_sealed: string }>`select key_sealed from second_factors where id = ${userId}`,
  )
  const step = factor && findStep(service, secrets.open(factor.key_sealed, placeOf(userId)), code)
  if (step === undefined) return false
  const taken = await database.asService(
    (sql) =>
      sql`update second_factors set last_step = ${step} where id = ${userId} and last_step < ${step} returning id`,
  )
  return taken.length > 0
}

async function takeRecoveryCode({ database }: Service, userId: string, code: string): Promise<boolean> {
  return database.asService(async (sql) => {
    const taken = await sql`
      delete from recovery_codes where user_id = ${userId} and code_hash = ${hashRecoveryCode(code)} returning user_id`
    if (taken.length > 0) await recordForUser(sql, userId, { action: 'user.recovery_code_used' })
    return taken.length > 0
  })
}

/** The time step that a code is for. Clocks may differ by one step. */
function findStep({ clock }: Pick<Service, 'clock'>, key: string, code: string): number | undefined {
  const now = clock()
  const delta = totpOf(key, '').validate({ token: tidy(code), timestamp: now, window: 1 })
  return delta === null ? undefined : Math.floor(now / 1000 / periodSeconds) + delta
}

/** 80 random bits, which can't be guessed even from the hash. */
const newRecoveryCode = (): string => new Secret({ size: 10 }).base32.toLowerCase().replace(/(.{4})(?=.)/g, '$1-')

const hashRecoveryCode = (code: string): string => fingerprint(tidy(code))

const tidy = (code: string): string => code.replace(/[\s-]/g, '').toLowerCase()
