import type { Context, Hono } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { QueueFull } from '../../kernel/lib/shares/fair-queue.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import { claimMemberships } from '../../organizations/directories/claims.ts'
import { hasPasskeys } from '../passkeys/ceremonies.ts'
import { checkPasskey } from '../passkeys/passkeys.ts'
import { demoUsers } from '../users/demo-users.ts'
import { findLocalAccount, renewHash } from '../users/local-accounts.ts'
import { longestPassword } from '../users/password-rules.ts'
import { isOutdated, isPassword } from '../users/passwords.ts'
import type { User } from '../users/users.ts'
import { beginAttempt, pairOf } from './attempts.ts'
import { serveExternalSignIn } from './external.ts'
import { servePasswordPages } from './password-pages.ts'
import { type CodeOutcome, checkCode, findSecondFactor } from './second-factor.ts'
import { recordFailedSignIn, recordSignIn } from './sign-in-audit.ts'

export { startExternalSignIn, takeHandoff } from './external.ts'

export interface SignInMethods {
  /** A sign-in provider is configured: browsers are redirected to it, and no form is shown. */
  external: boolean
  /** A form for email address and password. */
  local: boolean
  /** A button for a passkey, beside the form. */
  passkeys: boolean
  /** Users who forgot their password get a link by mail. */
  resets: boolean
  /** One click each; empty outside development. */
  demoUsers: readonly { email: string; text: string }[]
}

export function signInMethods({ config }: Pick<Service, 'config'>): SignInMethods {
  const external = config.signInClient !== undefined
  return {
    external,
    local: !external,
    passkeys: !external && hasPasskeys({ config }),
    resets: !external && config.mail !== undefined,
    demoUsers: config.mode === 'development' && !external ? demoUsers : [],
  }
}

export type PasswordOutcome =
  | { is: 'signed in'; user: User }
  /** The password is right. `signInWithCode` finishes the sign-in. */
  | { is: 'second factor'; user: User }
  /** The next attempt is accepted after `waitSeconds`. */
  | { is: 'wrong'; waitSeconds: number }
  /** The password wasn't checked. */
  | { is: 'paused'; waitSeconds: number }
  | { is: 'busy' }

/** Takes the same time for an account that doesn't exist. */
export async function signInWithPassword(
  service: Service,
  { email, password, address }: { email: string; password: string; address: string },
): Promise<PasswordOutcome> {
  if (!signInMethods(service).local || email.length > 254 || password.length > longestPassword) {
    return { is: 'wrong', waitSeconds: 0 }
  }
  const attempt = await beginAttempt(service, pairOf(email, address))
  if ('waitSeconds' in attempt) return { is: 'paused', waitSeconds: attempt.waitSeconds }
  try {
    const account = await findLocalAccount(service, email)
    const isRight = await isPassword(password, account?.password_hash, address)
    if (!account?.password_hash || !isRight) {
      const { failures, waitSeconds } = await attempt.fail()
      if (account) recordFailedSignIn(service, account, { address, failures })
      return { is: 'wrong', waitSeconds }
    }
    await attempt.succeed()
    if (isOutdated(account.password_hash)) await renewHash(service, account, password)
    const user = describeUser(account)
    if (await findSecondFactor(service, user.id)) return { is: 'second factor', user }
    await recordSignIn(service, user.id, { method: 'password', address })
    await claimMemberships(service, user)
    return { is: 'signed in', user }
  } catch (error) {
    if (error instanceof QueueFull) return { is: 'busy' }
    throw error
  } finally {
    await attempt.end()
  }
}

/** The second step of a sign-in, for a user whose password was right. */
export async function signInWithCode(
  service: Service,
  { user, code, address }: { user: User; code: string; address: string },
): Promise<CodeOutcome> {
  const outcome = await checkCode(service, user.id, code)
  if (outcome.is === 'wrong') recordFailedSignIn(service, user, { address, failures: outcome.failures })
  if (outcome.is !== 'right') return outcome
  await recordSignIn(service, user.id, { method: 'password and code', address })
  await claimMemberships(service, user)
  return outcome
}

/** A passkey is both factors: the device, and the fingerprint, face or PIN that it asks for. */
export async function signInWithPasskey(
  service: Service,
  { challenge, response, address }: { challenge: string; response: string; address: string },
): Promise<User | undefined> {
  if (!signInMethods(service).passkeys) return undefined
  const outcome = await checkPasskey(service, { challenge, response })
  if (outcome.is === 'refused') {
    if (outcome.user) recordFailedSignIn(service, outcome.user, { address, failures: 1 })
    return undefined
  }
  await recordSignIn(service, outcome.user.id, { method: 'passkey', address })
  await claimMemberships(service, outcome.user)
  return outcome.user
}

export async function signInAsDemoUser(service: Service, email: string, address: string): Promise<User | undefined> {
  if (!signInMethods(service).demoUsers.some((person) => person.email === email)) return undefined
  const account = await findLocalAccount(service, email)
  if (!account) return undefined
  const user = describeUser(account)
  await recordSignIn(service, user.id, { method: 'demo', address })
  await claimMemberships(service, user)
  return user
}

const newUserSeconds = 5 * 60
/** A user who has just created their account, for the browser in which they did it. */
const newUser = oneTime<User>('new-user', newUserSeconds)

function newUserCookie({ config }: Service) {
  const secure = config.mode === 'production'
  const options = { path: '/', httpOnly: true, secure, sameSite: 'lax' as const, maxAge: newUserSeconds }
  return { name: secure ? '__Host-inlay-new-user' : 'inlay-new-user', options }
}

/** Lets the user continue without the password that they have just chosen. The next page for sign-in signs them in. */
export async function expectNewUser(service: Service, c: Context, email: string): Promise<void> {
  const account = await findLocalAccount(service, email)
  if (!account) return
  const { name, options } = newUserCookie(service)
  setCookie(c, name, await newUser.issue(service.kv, describeUser(account)), options)
}

export async function signInNewUser(service: Service, c: Context<NodeEnv>): Promise<User | undefined> {
  const { name, options } = newUserCookie(service)
  const token = getCookie(c, name)
  if (!token || !signInMethods(service).local) return undefined
  deleteCookie(c, name, options)
  const user = await newUser.take(service.kv, token)
  const account = user && (await findLocalAccount(service, user.email))
  // Their sessions may have been ended in the meantime.
  if (!account || account.id !== user.id || account.session_generation !== user.session_generation) return undefined
  await recordSignIn(service, user.id, { method: 'password', address: service.clientAddress(c.env.incoming) })
  await claimMemberships(service, user)
  return user
}

const describeUser = ({ id, email, name, session_generation }: User): User => ({ id, email, name, session_generation })

export function serveSignIn(service: Service): Hono<NodeEnv> {
  const { signInClient } = service.config
  return signInClient ? serveExternalSignIn(service, signInClient) : servePasswordPages(service)
}
