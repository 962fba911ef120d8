import { z } from 'zod'
import { usersDecideAccess } from '../../kernel/foundation/caller.ts'
import { cursorAt, order } from '../../kernel/foundation/cursors.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, name, OptionalPage, Role, Success, Timestamp } from '../../kernel/foundation/shapes.ts'

const Organization = z
  .strictObject({
    id: z.string().describe('ID of the organization'),
    name: z.string().describe('Display name; not unique'),
    slug: z.string().describe('Short unique name, made from the display name, for use in URLs'),
    avatar_url: z.string().describe('URL of the organization’s picture; empty if it has none'),
    role: Role.describe('Your own role in the organization'),
    created_at: Timestamp.describe('When the organization was created'),
    updated_at: Timestamp.describe('When the organization was last changed'),
  })
  .meta({ id: 'Organization' })

const Member = z
  .strictObject({
    id: z.string().describe('ID of the membership; use it to change the role or to remove the member'),
    role: Role.describe(
      '`admin` can change settings and manage members; `member` can read them and use the organization’s tools',
    ),
    created_at: Timestamp.describe('When the user joined the organization'),
    user: z
      .strictObject({
        id: z.string().describe('ID of the user, the same in every organization'),
        email: z.string().describe('Email address that the user signs in with'),
        name: z.string().describe('Display name of the user'),
        avatar_url: z.string().describe('URL of the profile picture; empty if the user has none'),
        created_at: Timestamp.describe('When the account was created'),
        updated_at: Timestamp.describe('When the profile was last changed'),
      })
      .describe('Profile of the user'),
  })
  .meta({ id: 'Member' })

const Invitation = z
  .strictObject({
    id: z.string().describe('ID of the invitation; use it to withdraw the invitation'),
    email: z.string().describe('Email address of the invited user'),
    role: Role.describe('Role that the user gets on accepting'),
    invited_by: z.string().describe('Email address of the admin who created the invitation'),
    url: z
      .string()
      .describe(
        'Link for the invited user. When you create or renew an invitation, it works once, for a user without an account too, and isn’t shown again: send it to them. In a list, it’s the page where users who are signed in find their invitations',
      ),
    mailed: z.boolean().describe('Whether Inlay mails the link to the invited user, because the operator set up mail'),
    created_at: Timestamp.describe('When the invitation was created'),
    expires_at: Timestamp.describe('When the invitation expires, unless it’s renewed'),
  })
  .meta({ id: 'Invitation' })

const MyInvitation = z
  .strictObject({
    id: z.string().describe('ID of the invitation; use it to accept or decline'),
    organization: z
      .strictObject({
        id: z.string().describe('ID of the organization'),
        name: z.string().describe('Display name of the organization'),
        slug: z.string().describe('Short name of the organization; unlike the display name, it is unique'),
      })
      .describe('Organization that you are invited to'),
    role: Role.describe('Role that you get on accepting'),
    invited_by: z.string().describe('Email address of the admin who invited you'),
    created_at: Timestamp.describe('When the invitation was created'),
  })
  .meta({ id: 'MyInvitation' })

const organizations = { tag: 'Organizations', resource: 'organization' } as const
const members = { tag: 'Members', resource: 'member' } as const
const invitations = { tag: 'Invitations', resource: 'invitation' } as const

const exampleOrganization = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2',
  name: 'Acme',
  slug: 'acme',
  avatar_url: '',
  role: 'admin',
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
} as const

export const listOrganizations = operation({
  ...organizations,
  id: 'listOrganizations',
  method: 'get',
  path: '/organizations',
  access: 'user',
  summary: 'List your organizations',
  description:
    'Returns every organization that you are a member of, with your role in each. To act on one of them, sign in again and choose it: organization operations use the organization that the access token carries.',
  response: z.array(Organization),
  errors: [],
  example: { response: [exampleOrganization] },
})

export const createOrganization = operation({
  ...organizations,
  id: 'createOrganization',
  method: 'post',
  path: '/organizations',
  creates: true,
  access: 'user',
  usersOnly: 'the user who creates an organization becomes its first admin',
  summary: 'Create an organization',
  description:
    'You become its first admin. The organization starts on the free plan. Your current token still belongs to the organization that you chose when you signed in; get a new token to work in the new one.',
  body: z.strictObject({ name: name(100).describe('Display name, 1 to 100 characters') }),
  response: Organization,
  errors: [],
  example: { request: { name: 'Acme' }, response: exampleOrganization },
})

export const getOrganization = operation({
  ...organizations,
  id: 'getOrganization',
  method: 'get',
  path: '/organizations/{id}',
  access: 'user',
  summary: 'Get one of your organizations by ID',
  description:
    'Returns an organization that you are a member of. The response is a 404 if the organization doesn’t exist or if you aren’t a member.',
  params: Id,
  response: Organization,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleOrganization },
})

export const getOrganizationBySlug = operation({
  ...organizations,
  id: 'getOrganizationBySlug',
  method: 'get',
  path: '/organizations/by-slug/{slug}',
  access: 'user',
  summary: 'Get one of your organizations by slug',
  description:
    'Returns an organization that you are a member of. The response is a 404 if the organization doesn’t exist or if you aren’t a member.',
  params: z.strictObject({ slug: z.string().describe('Slug of the organization') }),
  response: Organization,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleOrganization },
})

export const updateOrganization = operation({
  ...organizations,
  id: 'updateOrganization',
  method: 'patch',
  path: '/organizations/current',
  access: 'admin',
  summary: 'Rename the organization',
  description:
    'Changes the display name. The slug stays as it is, so that links, scripts and settings that contain it keep working.',
  body: z.strictObject({ name: name(100).describe('New display name, 1 to 100 characters') }),
  response: Organization,
  errors: [],
  example: { request: { name: 'Acme' }, response: exampleOrganization },
})

const exampleUser = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10a1',
  email: 'ada@example.com',
  name: 'Ada Lovelace',
  avatar_url: '',
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
} as const

export const listMembers = operation({
  ...members,
  id: 'listMembers',
  method: 'get',
  path: '/organizations/current/members',
  access: 'org',
  summary: 'List members',
  description:
    'Returns the members of the organization with their profiles and roles. Open invitations aren’t included.',
  query: OptionalPage.extend({ cursor: cursorAt(order.time, order.id) }),
  response: z.array(Member),
  pages: true,
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: [
      {
        id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
        role: 'admin',
        created_at: '2026-11-02T09:30:00.000Z',
        user: exampleUser,
      },
    ],
  },
})

export const updateMember = operation({
  ...members,
  id: 'updateMember',
  method: 'patch',
  path: '/organizations/current/members/{id}',
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Change a member’s role',
  description:
    'The new role applies to the member’s existing tokens too. You can’t demote the last admin: the response is a 409 with the code `LAST_ADMIN`. If a directory gives the member their role, it’s a 409 with the code `MANAGED_BY_DIRECTORY`.',
  params: Id,
  body: z.strictObject({ role: Role.describe('New role of the member') }),
  response: Member,
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    request: { role: 'member' },
    response: {
      id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
      role: 'member',
      created_at: '2026-11-02T09:30:00.000Z',
      user: exampleUser,
    },
  },
})

export const removeMember = operation({
  ...members,
  id: 'removeMember',
  method: 'delete',
  path: '/organizations/current/members/{id}',
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Remove a member',
  description:
    'The member’s tokens stop working for this organization, and their open connections are closed. Their account and their other organizations aren’t affected. You can’t remove the last admin: the response is a 409 with the code `LAST_ADMIN`. If a directory gives the member their role, it’s a 409 with the code `MANAGED_BY_DIRECTORY`.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})

export const leaveOrganization = operation({
  ...members,
  id: 'leaveOrganization',
  method: 'post',
  path: '/organizations/current/leave',
  access: 'org',
  usersOnly: 'a service account isn’t a member, and works until it expires or an admin deletes it',
  summary: 'Leave the organization',
  description:
    'Ends your own membership. Your tokens for this organization stop working. The last admin can’t leave: the response is a 409 with the code `LAST_ADMIN`. Nor can a member whose role comes from a directory: the code is `MANAGED_BY_DIRECTORY`.',
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})

const exampleInvitation = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  email: 'grace@example.com',
  role: 'member',
  invited_by: 'ada@example.com',
  url: 'https://inlay.example.com/invitations/join?token=Zk3uWq8…',
  mailed: true,
  created_at: '2026-11-02T09:30:00.000Z',
  expires_at: '2026-11-14T16:05:12.480Z',
} as const

export const listInvitations = operation({
  ...invitations,
  id: 'listInvitations',
  method: 'get',
  path: '/organizations/current/invitations',
  access: 'admin',
  summary: 'List open invitations',
  description:
    'Returns the organization’s invitations that haven’t been accepted, declined or withdrawn, and haven’t expired.',
  query: OptionalPage.extend({ cursor: cursorAt(order.time, order.id) }),
  response: z.array(Invitation),
  pages: true,
  errors: [],
  example: { response: [exampleInvitation] },
})

export const createInvitation = operation({
  ...invitations,
  id: 'createInvitation',
  method: 'post',
  path: '/organizations/current/invitations',
  creates: true,
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Invite a user by email',
  description:
    'Send the `url` of the response to the invited user; Inlay mails them a link too if the operator set up mail (`mailed`). They sign in or create their account there, and join. Users with that verified address can also accept at their next sign-in, or with the API. The invitation expires after seven days. An open invitation uses a seat of the plan: the response is `PAYMENT_REQUIRED` if no seat is left. It is `DUPLICATE_RESOURCE` if the address is already invited or belongs to a member.',
  body: z.strictObject({
    email: z.email().max(254).toLowerCase().describe('Email address to invite; stored in lower case'),
    role: Role.describe('Role that the user gets on accepting'),
  }),
  response: Invitation,
  errors: ['DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
  example: { request: { email: 'grace@example.com', role: 'member' }, response: exampleInvitation },
})

export const renewInvitation = operation({
  ...invitations,
  id: 'renewInvitation',
  method: 'post',
  path: '/organizations/current/invitations/{id}/renew',
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Create a new link for an invitation',
  description:
    'Use it if the link got lost, or before the invitation expires. The response has a new `url`, which is mailed too if the operator set up mail. Earlier links stop working, and the invitation is valid for another seven days.',
  params: Id,
  response: Invitation,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleInvitation },
})

export const deleteInvitation = operation({
  ...invitations,
  id: 'deleteInvitation',
  method: 'delete',
  path: '/organizations/current/invitations/{id}',
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Withdraw an invitation',
  description:
    'The user can no longer accept it, and its seat is free again. Withdrawing doesn’t remove a user who has already accepted.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})

export const listMyInvitations = operation({
  ...invitations,
  id: 'listMyInvitations',
  method: 'get',
  path: '/users/me/invitations',
  access: 'user',
  usersOnly: 'invitations are for users',
  summary: 'List invitations to you',
  description:
    'Returns the open invitations to your verified email address, newest first, at most 100. The list is empty while your address isn’t verified.',
  response: z.array(MyInvitation),
  errors: [],
  example: {
    response: [
      {
        id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
        organization: { id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2', name: 'Acme', slug: 'acme' },
        role: 'member',
        invited_by: 'ada@example.com',
        created_at: '2026-11-02T09:30:00.000Z',
      },
    ],
  },
})

export const acceptInvitation = operation({
  ...invitations,
  id: 'acceptInvitation',
  method: 'post',
  path: '/users/me/invitations/{id}/accept',
  access: 'user',
  usersOnly: 'invitations are for users',
  summary: 'Accept an invitation and become a member',
  description:
    'You become a member with the role of the invitation. Get a new token to work in the organization. The response is a 404 if the invitation was withdrawn, has already been answered, or is for another address, and a 403 if the organization’s directory has deactivated your membership.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})

export const declineInvitation = operation({
  ...invitations,
  id: 'declineInvitation',
  method: 'post',
  path: '/users/me/invitations/{id}/decline',
  access: 'user',
  usersOnly: 'invitations are for users',
  summary: 'Decline an invitation',
  description:
    'The invitation is deleted and its seat is free again. The response is a 404 if the invitation was withdrawn, has already been answered, or is for another address.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})
