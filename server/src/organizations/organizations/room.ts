import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Departures } from '../departures/departures.ts'
import * as contract from './contract.ts'
import * as invitations from './invitations.ts'
import * as members from './members.ts'
import * as organizations from './organizations.ts'
import * as tools from './tools.ts'

export const organizationsRoom: Room<Service & { departures: Departures }> = {
  tags: {
    Organizations: 'Tenants. All data except user accounts belongs to exactly one organization.',
    Members: 'Users who belong to the organization, and their roles.',
    Invitations: 'Invite users by email. They become members when they accept.',
  },
  routes: [
    route(contract.listOrganizations, organizations.listOrganizations),
    route(contract.createOrganization, organizations.createOrganization),
    route(contract.getOrganizationBySlug, organizations.getOrganizationBySlug),
    route(contract.updateOrganization, organizations.updateOrganization),
    route(contract.listMembers, members.listMembers),
    route(contract.updateMember, members.updateMember),
    route(contract.removeMember, members.removeMember),
    route(contract.leaveOrganization, members.leaveOrganization),
    route(contract.listInvitations, invitations.listInvitations),
    route(contract.createInvitation, invitations.createInvitation),
    route(contract.renewInvitation, invitations.renewInvitation),
    route(contract.deleteInvitation, invitations.deleteInvitation),
    route(contract.listMyInvitations, invitations.listMyInvitations),
    route(contract.acceptInvitation, invitations.acceptInvitation),
    route(contract.declineInvitation, invitations.declineInvitation),
    route(contract.getOrganization, organizations.getOrganization),
  ],
  tools: [tools.listOrganizations, tools.getOrganization, tools.listMembers],
}
