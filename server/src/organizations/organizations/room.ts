import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { AccessCleanup } from '../access-cleanup/access-cleanup.ts'
import * as contract from './contract.ts'
import {
  acceptInvitation,
  createInvitation,
  declineInvitation,
  deleteInvitation,
  listInvitations,
  listMyInvitations,
  renewInvitation,
} from './invitations.ts'
import { leaveOrganization, listMembers, removeMember, updateMember } from './members.ts'
import {
  createOrganization,
  getOrganization,
  getOrganizationBySlug,
  listOrganizations,
  updateOrganization,
} from './organizations.ts'
import * as tools from './tools.ts'

export const organizationsRoom: Room<Service & { accessCleanup: AccessCleanup }> = {
  tags: {
    Organizations: 'Tenants. All data except user accounts belongs to exactly one organization.',
    Members: 'Users who belong to the organization, and their roles.',
    Invitations: 'Invite users by email. They become members when they accept.',
  },
  routes: bind(contract, {
    listOrganizations,
    createOrganization,
    getOrganizationBySlug,
    updateOrganization,
    listMembers,
    updateMember,
    removeMember,
    leaveOrganization,
    listInvitations,
    createInvitation,
    renewInvitation,
    deleteInvitation,
    listMyInvitations,
    acceptInvitation,
    declineInvitation,
    getOrganization,
  }),
  tools: [tools.listOrganizations, tools.getOrganization, tools.listMembers],
}
