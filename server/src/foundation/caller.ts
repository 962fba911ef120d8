import { accessDenied, orgContextRequired } from '../lib/errors.ts'
import type { Trail } from '../stores/audit/audit.ts'
import type { Role } from './shapes.ts'

/** Who may call: anybody, a signed-in person, a member of the token's organization, one of its admins. */
export type Access = 'public' | 'user' | 'org' | 'admin'

/** A signed-in person, and the organization that the token speaks for. */
export interface Caller {
  user: { id: string; email: string; name: string; avatar_url: string }
  /** Whether whoever signed them in vouches for the address. */
  email_verified: boolean
  token: CallerToken
  organization?: { id: string; name: string; slug: string }
  role?: Role
}

export type OrgCaller = Caller & Required<Pick<Caller, 'organization' | 'role'>>

export type CallerOf<A extends Access> = A extends 'public' ? undefined : A extends 'user' ? Caller : OrgCaller

/** What is known about the token of a caller. Tokens that come from no sign-in, such as the operator's, lack the last three. */
export interface CallerToken {
  /** What it is revoked by: one token has one id, whatever its text looks like. */
  id: string
  /** Milliseconds since the Unix epoch. */
  expires_at: number
  organization_id: string | undefined
  /** The authorization that the token comes from, if it can still be ended. */
  grant_id?: string | undefined
  sign_in?: SignIn | undefined
  client_id?: string | undefined
  client_name?: string | undefined
}

/** Where an authorization comes from: the session of a browser, and how often the person's had been ended before it. */
export interface SignIn {
  session: string
  generation: number
}

export interface AccessControl {
  /** `audience` is the resource that the request is for. Tokens for another one are refused. */
  check(authorization: string | undefined, access: Access, audience: string): Promise<Caller | undefined>
}

/** Whose audit trail a change of this caller belongs to. */
export const trailOf = ({ organization, user }: OrgCaller): Trail => ({
  organizationId: organization.id,
  actor: user.email,
})

/** Which organization, then which role, of somebody who is known. */
export function requireAccess(caller: Caller, access: Access): void {
  if (access === 'public' || access === 'user') return
  if (!caller.token.organization_id) throw orgContextRequired()
  if (!caller.role) throw accessDenied('You are not a member of this organization')
  if (access === 'admin' && caller.role !== 'admin') throw accessDenied('This needs the admin role')
}
