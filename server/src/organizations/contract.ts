import { z } from 'zod'
import { operation } from '../operation.ts'
import { Id, name, Success, Timestamp } from '../shapes.ts'

export const Role = z.enum(['admin', 'member'])
export type Role = z.infer<typeof Role>

const Organization = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    slug: z.string(),
    avatar_url: z.string().describe('Empty when the organization has no picture'),
    role: Role,
    created_at: Timestamp,
    updated_at: Timestamp,
  })
  .meta({ id: 'Organization' })

const Member = z
  .strictObject({
    id: z.string(),
    role: Role,
    created_at: Timestamp,
    user: z.strictObject({
      id: z.string(),
      email: z.string(),
      name: z.string(),
      avatar_url: z.string().describe('Empty when the person has no picture'),
      created_at: Timestamp,
      updated_at: Timestamp,
    }),
  })
  .meta({ id: 'Member' })

const Invitation = z
  .strictObject({
    id: z.string(),
    email: z.string(),
    role: Role,
    invited_by: z.string().describe('Address of the admin who sent it'),
    url: z.string().describe('Where the invited person accepts or declines it; send it to them'),
    created_at: Timestamp,
  })
  .meta({ id: 'Invitation' })

const MyInvitation = z
  .strictObject({
    id: z.string(),
    organization: z.strictObject({
      id: z.string(),
      name: z.string(),
      slug: z.string().describe('Unique, unlike the name'),
    }),
    role: Role,
    invited_by: z.string().describe('Address of the admin who sent it'),
    created_at: Timestamp,
  })
  .meta({ id: 'MyInvitation' })

const organizations = { tag: 'Organizations', resource: 'organization' } as const
const members = { tag: 'Members', resource: 'member' } as const
const invitations = { tag: 'Invitations', resource: 'invitation' } as const

export const listOrganizations = operation({
  ...organizations,
  id: 'listOrganizations',
  method: 'get',
  path: '/organizations',
  access: 'user',
  summary: 'The organizations that the signed-in person belongs to',
  response: z.array(Organization),
  errors: [],
})

export const createOrganization = operation({
  ...organizations,
  id: 'createOrganization',
  method: 'post',
  path: '/organizations',
  creates: true,
  access: 'user',
  summary: 'Create an organization; whoever creates it is its first admin',
  body: z.strictObject({ name: name(100) }),
  response: Organization,
  errors: [],
})

export const getOrganization = operation({
  ...organizations,
  id: 'getOrganization',
  method: 'get',
  path: '/organizations/{id}',
  access: 'user',
  summary: 'One of the signed-in person’s organizations, by id',
  params: Id,
  response: Organization,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const getOrganizationBySlug = operation({
  ...organizations,
  id: 'getOrganizationBySlug',
  method: 'get',
  path: '/organizations/by-slug/{slug}',
  access: 'user',
  summary: 'One of the signed-in person’s organizations, by slug',
  params: z.strictObject({ slug: z.string() }),
  response: Organization,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const listMembers = operation({
  ...members,
  id: 'listMembers',
  method: 'get',
  path: '/organizations/current/members',
  access: 'org',
  summary: 'The organization’s members with profile and role',
  response: z.array(Member),
  errors: ['RESOURCE_NOT_FOUND'],
})

export const updateMember = operation({
  ...members,
  id: 'updateMember',
  method: 'patch',
  path: '/organizations/current/members/{id}',
  access: 'admin',
  summary: 'Change a member’s role',
  description: 'The last admin cannot be demoted: 409 with the code `LAST_ADMIN`.',
  params: Id,
  body: z.strictObject({ role: Role }),
  response: Member,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const removeMember = operation({
  ...members,
  id: 'removeMember',
  method: 'delete',
  path: '/organizations/current/members/{id}',
  access: 'admin',
  summary: 'Remove a member; their tokens stop working for the organization',
  description: 'The last admin cannot be removed: 409 with the code `LAST_ADMIN`.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const leaveOrganization = operation({
  ...members,
  id: 'leaveOrganization',
  method: 'post',
  path: '/organizations/current/leave',
  access: 'org',
  summary: 'Leave the organization; your tokens for it stop working',
  description: 'The last admin can’t leave: 409 with the code `LAST_ADMIN`.',
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const listInvitations = operation({
  ...invitations,
  id: 'listInvitations',
  method: 'get',
  path: '/organizations/current/invitations',
  access: 'admin',
  summary: 'Invitations that nobody has accepted yet',
  response: z.array(Invitation),
  errors: [],
})

export const createInvitation = operation({
  ...invitations,
  id: 'createInvitation',
  method: 'post',
  path: '/organizations/current/invitations',
  creates: true,
  access: 'admin',
  summary: 'Invite somebody by email',
  description:
    'Nobody becomes a member unasked: the invited person accepts or declines at `url`, at their next sign-in, or with the API, signed in with that verified address. Inlay sends no email. An open invitation takes a seat of the plan.',
  body: z.strictObject({ email: z.email().max(254).toLowerCase(), role: Role }),
  response: Invitation,
  errors: ['DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
})

export const deleteInvitation = operation({
  ...invitations,
  id: 'deleteInvitation',
  method: 'delete',
  path: '/organizations/current/invitations/{id}',
  access: 'admin',
  summary: 'Withdraw an invitation',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const listMyInvitations = operation({
  ...invitations,
  id: 'listMyInvitations',
  method: 'get',
  path: '/users/me/invitations',
  access: 'user',
  summary: 'Open invitations to your verified address, newest first',
  description: 'At most 100. Empty while your address isn’t verified.',
  response: z.array(MyInvitation),
  errors: [],
})

export const acceptInvitation = operation({
  ...invitations,
  id: 'acceptInvitation',
  method: 'post',
  path: '/users/me/invitations/{id}/accept',
  access: 'user',
  summary: 'Accept an invitation and become a member',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const declineInvitation = operation({
  ...invitations,
  id: 'declineInvitation',
  method: 'post',
  path: '/users/me/invitations/{id}/decline',
  access: 'user',
  summary: 'Decline an invitation',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
})
