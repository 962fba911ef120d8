import { canonicalEmail } from '../net/email-addresses.ts'
import type { MemberCaller } from './caller.ts'

/** The user, end user or visitor that a page belongs to, within an organization. */
export interface Owner {
  organization_id: string
  /** See `ownerOf`. */
  identity: string
}

/** On whose behalf a tool is called: a member, through an MCP client, or an end user or visitor, through the agent. */
export interface ToolUser {
  organizationId: string
  /** Decides which open pages are theirs. */
  owner: Owner
  /** The member's user ID. For the agent, the end user's ID, or the publishable key's ID for a visitor. */
  id: string
  /** Empty if the agent works for someone without a verified address. */
  email: string
  email_verified: boolean
  client_id: string | undefined
  client_name: string | undefined
  /** Undefined for the agent. A member's calls end with the member's access; the agent ends its own calls. */
  member: MemberCaller | undefined
  /** Undefined for members and visitors. */
  endUserId: string | undefined
}

export const memberAsToolUser = (member: MemberCaller): ToolUser => ({
  organizationId: member.organization.id,
  owner: ownerOfMember(member),
  id: member.user.id,
  email: member.user.email,
  email_verified: member.email_verified,
  client_id: member.token.client_id,
  client_name: member.token.client_name,
  member,
  endUserId: undefined,
})

/** A member whose email address isn't verified owns no pages. */
const ownerOfMember = ({ organization, user, email_verified }: MemberCaller): Owner =>
  email_verified
    ? byEmail(organization.id, user.email)
    : { organization_id: organization.id, identity: `member:${user.id}` }

/**
 * A verified email address identifies the same user in the dashboard and in the organization's pages. End users without
 * one are identified by their end user ID, and visitors by their session.
 */
export function ownerOf(
  organizationId: string,
  who: { verified_email?: string | undefined; end_user_id?: string | undefined; session: string },
): Owner {
  const { verified_email, end_user_id, session } = who
  if (verified_email) return byEmail(organizationId, verified_email)
  return { organization_id: organizationId, identity: end_user_id ? `user:${end_user_id}` : `session:${session}` }
}

const byEmail = (organizationId: string, email: string): Owner => ({
  organization_id: organizationId,
  identity: `email:${canonicalEmail(email)}`,
})
