import { z } from 'zod'
import { usersDecideAccess } from '../../kernel/foundation/caller.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Success, Timestamp } from '../../kernel/foundation/shapes.ts'
import { variant } from '../../kernel/lib/errors.ts'

const OrganizationErasure = z
  .strictObject({
    id: z.string().describe('ID of the receipt'),
    organization_hash: z
      .string()
      .describe('SHA-256 of the organization’s ID, in base64url; nothing else of the organization is kept'),
    counts: z
      .record(z.string(), z.int())
      .describe(
        'Number of rows that were erased so far, by database table; `users` are accounts that a directory created',
      ),
    requested_at: Timestamp.describe('When the organization was deleted; all access to it ended then'),
    finished_at: Timestamp.nullable().describe(
      'When nothing of the organization was left; null while rows are still erased',
    ),
  })
  .meta({ id: 'OrganizationErasure' })

const common = { tag: 'Organizations', resource: 'organization_erasure' } as const

export const deletionErrors = {
  SUBSCRIPTION_RENEWS: variant(
    409,
    'CONFLICT',
    'The organization has a subscription that renews. Cancel it in the billing portal, then delete the organization.',
  ),
} as const

const exampleOrganizationErasure = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  organization_hash: 'text',
  counts: {},
  requested_at: '2026-11-14T16:05:12.480Z',
  finished_at: '2026-11-14T16:05:12.480Z',
} as const

export const deleteOrganization = operation({
  ...common,
  id: 'deleteOrganization',
  method: 'post',
  path: '/organizations/current/delete',
  access: 'admin',
  usersOnly: usersDecideAccess,
  summary: 'Delete the organization',
  description:
    'Ends all access to the organization at once: of members, service accounts, publishable keys, directories and open connections. Then erases everything that belongs to it, including the audit trail, and returns a receipt. This can’t be undone. User accounts stay, except those that only a directory created. A large organization takes a while: the receipt then has no `finished_at` yet, and the server continues by itself. The response is a 409 with the code `SUBSCRIPTION_RENEWS` if a subscription would still be charged.',
  body: z.strictObject({
    slug: z.string().max(100).describe('Slug of the organization, to confirm which one you delete'),
  }),
  response: OrganizationErasure,
  errors: ['VALIDATION_ERROR'],
  ownErrors: deletionErrors,
  example: { request: { slug: 'acme' }, response: exampleOrganizationErasure },
})

export const getOrganizationErasure = operation({
  ...common,
  id: 'getOrganizationErasure',
  method: 'get',
  path: '/users/me/organization-erasures/{id}',
  access: 'user',
  usersOnly: 'the receipt belongs to the user who deleted the organization',
  summary: 'Get the receipt of an organization that you deleted',
  description:
    'Returns what was erased so far, and when it was finished. The response is a 404 if another user deleted the organization.',
  params: Id,
  response: OrganizationErasure,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleOrganizationErasure },
})

const endUsers = { tag: 'End users', resource: 'end_user' } as const

const ExportedLine = z
  .strictObject({
    kind: z
      .enum([
        'profile',
        'usage_totals',
        'budget',
        'budget_period',
        'connected_account',
        'confirmed_browser',
        'thread',
        'message',
        'feedback',
        'usage_event',
        'tool_call',
        'tool_call_contents',
      ])
      .describe('What the line describes'),
    data: z
      .record(z.string(), z.unknown())
      .describe('Everything stored about it, with the names that the other operations use'),
  })
  .meta({ id: 'ExportedLine' })

export const exportEndUser = operation({
  ...endUsers,
  id: 'exportEndUser',
  method: 'get',
  path: '/end-users/{id}/export',
  access: 'admin',
  summary: 'Export everything stored about an end user',
  description:
    'Streams JSON Lines, for a user who asks what you store about them: the profile, threads with their messages, the agent’s tool calls and the user’s permissions, feedback, usage, budgets, connected accounts without their tokens, and confirmed browsers. Contents are included even if they’re hidden in your dashboard, so every export is an audit event. The response is complete if it ends without a connection error.',
  params: Id,
  response: ExportedLine,
  lines: true,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { kind: 'feedback', data: { rating: 'up', comment: 'Found it at once' } } },
})

export const eraseEndUser = operation({
  ...endUsers,
  id: 'eraseEndUser',
  method: 'delete',
  path: '/end-users/{id}',
  access: 'admin',
  summary: 'Erase an end user',
  description:
    'Deletes the profile and the threads of an end user, with all messages and feedback, and closes their connections. Usage stays in the organization’s totals, without the identity. If the user visits again, a new end user is created. To prevent that, block the user at your identity provider.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})
