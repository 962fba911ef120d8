import type { Hono } from 'hono'
import { demoPeople } from '../demo/demo.ts'
import type { Service } from '../service.ts'
import { findLocalAccount, renewHash } from '../users/local-accounts.ts'
import { isOutdated, isPassword } from '../users/passwords.ts'
import type { User } from '../users/users.ts'
import { serveExternalSignIn } from './external.ts'
import { servePasswordPages } from './password-pages.ts'

export { startExternalSignIn, takeHandoff } from './external.ts'

export interface SignInMethods {
  /** An OIDC provider is configured: browsers go there, there is no form. */
  external: boolean
  /** A form for address and password. */
  local: boolean
  /** One click each; empty outside development. */
  demoPeople: readonly { email: string; text: string }[]
}

export function signInMethods({ config }: Pick<Service, 'config'>): SignInMethods {
  const external = config.signInClient !== undefined
  return { external, local: !external, demoPeople: config.mode === 'development' && !external ? demoPeople : [] }
}

/** Nothing counts wrong passwords: what a check costs (users/passwords.ts) is the brake. */
export async function signInWithPassword(service: Service, email: string, password: string): Promise<User | undefined> {
  if (!signInMethods(service).local || email.length > 254 || password.length > 200) return undefined
  const account = await findLocalAccount(service, email)
  const isRight = await isPassword(password, account?.password_hash)
  if (!account?.password_hash || !isRight) return undefined
  if (isOutdated(account.password_hash)) await renewHash(service, account, password)
  return describeUser(account)
}

export async function signInAsDemoUser(service: Service, email: string): Promise<User | undefined> {
  if (!signInMethods(service).demoPeople.some((person) => person.email === email)) return undefined
  const account = await findLocalAccount(service, email)
  return account && describeUser(account)
}

const describeUser = ({ id, email, name, session_generation }: User): User => ({ id, email, name, session_generation })

export function serveSignIn(service: Service): Hono {
  const { signInClient } = service.config
  return signInClient ? serveExternalSignIn(service, signInClient) : servePasswordPages(service)
}
