import { accessDenied, orgContextRequired } from '../lib/errors.ts'
import type { Trail } from '../stores/audit/audit.ts'
import type { Role } from './shapes.ts'

/**
 * Who may call: anyone, any caller, a member of the token's organization, or one of its admins. A service account has
 * the rights of a member or an admin of its organization.
 */
export type Access = 'public' | 'user' | 'org' | 'admin'

export interface AccessRule {
  access: Access
  /** Why a service account can't call, as the end of “Service accounts can’t do this: …”. If absent, it can. */
  usersOnly?: string | undefined
}

/** A signed-in user or a service account, and the organization of the token. */
export interface Caller {
  /** ID of the user or the service account. */
  id: string
  /** The caller in the audit trail and other records: a user's email address, or `service-account:<name>`. */
  actor: string
  /** Undefined for a service account. */
  user?: CallingUser | undefined
  /** Whether the sign-in provider has verified the email address. */
  email_verified: boolean
  token: CallerToken
  organization?: { id: string; name: string; slug: string }
  role?: Role
}

export interface CallingUser {
  id: string
  email: string
  name: string
  avatar_url: string
}

export type UserCaller = Caller & { user: CallingUser }
export type OrgCaller = Caller & Required<Pick<Caller, 'organization' | 'role'>>
/** A member of an organization, not a service account. */
export type MemberCaller = OrgCaller & UserCaller

export type CallerOf<A extends Access, UsersOnly = undefined> = A extends 'public'
  ? undefined
  : (A extends 'user' ? Caller : OrgCaller) & (UsersOnly extends string ? UserCaller : unknown)

/** Facts about the caller's token. Tokens without a sign-in, such as the operator's, lack `sign_in` and the client. */
export interface CallerToken {
  /** Identifies the token for revocation, whatever its encoding. */
  id: string
  /** Milliseconds since the Unix epoch; infinite for a service account without an expiry. */
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
  check(authorization: string | undefined, rule: AccessRule, audience: string): Promise<Caller | undefined>
}

/** The audit trail for this caller's changes, which fail if the caller no longer has the role. */
export const trailOf = ({ organization, actor, id, role }: OrgCaller): Trail => ({
  organizationId: organization.id,
  actor,
  caller: { id, role },
})

/** Checks a caller's organization, then the role, then whether it's a user. */
export function requireAccess(caller: Caller, { access, usersOnly }: AccessRule): void {
  if (access === 'org' || access === 'admin') {
    if (!caller.token.organization_id) throw orgContextRequired()
    if (!caller.role) throw accessDenied('You are not a member of this organization')
    if (access === 'admin' && caller.role !== 'admin') throw accessDenied('This needs the admin role')
  }
  if (usersOnly !== undefined && !caller.user) throw accessDenied(refuseServiceAccount(usersOnly))
}

const refuseServiceAccount = (usersOnly: string) =>
  `Service accounts can’t do this: ${usersOnly}. Use the access token of a signed-in user.`

/** Operations that grant or end access to an organization; otherwise a leaked key could outlive its revocation. */
export const usersDecideAccess = 'only users decide who has access to an organization'

/**
 * Operations that name a server, a page or a repository that the organization trusts from then on; a leaked key could
 * name its thief's.
 */
export const usersDecideTrust = 'only users decide whom an organization trusts'
