import { route } from './operation.ts'
import * as organizationsContract from './organizations/contract.ts'
import * as invitations from './organizations/invitations.ts'
import * as members from './organizations/members.ts'
import * as organizations from './organizations/organizations.ts'
import * as keysContract from './publishable-keys/contract.ts'
import * as keys from './publishable-keys/keys.ts'
import * as usersContract from './users/contract.ts'
import * as users from './users/users.ts'

/** Every REST operation and the function that does it. A fixed path stands before one with a parameter in its place. */
export const api = [
  route(usersContract.getMe, users.getMe),
  route(usersContract.logout, users.logout),

  route(organizationsContract.listOrganizations, organizations.listOrganizations),
  route(organizationsContract.createOrganization, organizations.createOrganization),
  route(organizationsContract.getOrganizationBySlug, organizations.getOrganizationBySlug),
  route(organizationsContract.listMembers, members.listMembers),
  route(organizationsContract.updateMember, members.updateMember),
  route(organizationsContract.removeMember, members.removeMember),
  route(organizationsContract.listInvitations, invitations.listInvitations),
  route(organizationsContract.createInvitation, invitations.createInvitation),
  route(organizationsContract.deleteInvitation, invitations.deleteInvitation),
  route(organizationsContract.getOrganization, organizations.getOrganization),

  route(keysContract.listKeys, keys.listKeys),
  route(keysContract.createKey, keys.createKey),
  route(keysContract.updateKey, keys.updateKey),
  route(keysContract.revealKey, keys.revealKey),
  route(keysContract.revokeKey, keys.revokeKey),
]
