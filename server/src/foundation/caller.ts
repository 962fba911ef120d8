import { accessDenied, orgContextRequired } from '../lib/errors.ts'
import type { Trail } from '../stores/audit/audit.ts'
import type { Role } from './shapes.ts'

/** Who may call: anyone, a signed-in user, a member of the token's organization, or one of its admins. */
export type Access = 'public' | 'user' | 'org' | 'admin'

/** A signed-in user, and the organization of the token. */
export interface Caller {
  user: { id: string; email: string; name: string; avatar_url: string }
  /** Whether the sign-in provider has verified the email address. */
  email_verified: boolean
  token: CallerToken
  organization?: { id: string; name: string; slug: string }
  role?: Role
}

export type OrgCaller = Caller & Required<Pick<Caller, 'organization' | 'role'>>

export type CallerOf<A extends Access> = A extends 'public' ? undefined : A extends 'user' ? Caller : OrgCaller

/** Facts about the caller's token. Tokens without a sign-in, such as the operator's, lack `sign_in` and the client. */
export interface CallerToken {
  /** Identifies the token for revocation, whatever its encoding. */
  id: string
  /** Milliseconds since the Unix epoch. */
  expires_at: number
  organization_id: string | undefined
  /** The grant that the token was issued under, if it can be revoked. */
  grant_id?: string | undefined
  sign_in?: SignIn | undefined
  client_id?: string | undefined
  client_name?: string | undefined
}

/** The browser session that a grant comes from, and how often the user's sessions had been ended before it. */
export interface SignIn {
  session: string
  generation: number
}

export interface AccessControl {
  /** `audience` is the resource that the request is for. Tokens for another resource are rejected. */
  check(authorization: string | undefined, access: Access, audience: string): Promise<Caller | undefined>
}

/** The audit trail for this caller's changes. */
export const trailOf = ({ organization, user }: OrgCaller): Trail => ({
  organizationId: organization.id,
  actor: user.email,
})

/** Checks a caller's organization, then the role. */
export function requireAccess(caller: Caller, access: Access): void {
  if (access === 'public' || access === 'user') return
  if (!caller.token.organization_id) throw orgContextRequired()
  if (!caller.role) throw accessDenied('You are not a member of this organization')
  if (access === 'admin' && caller.role !== 'admin') throw accessDenied('This needs the admin role')
}
