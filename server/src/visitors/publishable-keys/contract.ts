import { z } from 'zod'
import { usersDecideTrust } from '../../kernel/foundation/caller.ts'
import { cursorAt, order } from '../../kernel/foundation/cursors.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, name, OptionalPage, originPatterns, Timestamp } from '../../kernel/foundation/shapes.ts'

const Name = name(100)

const AllowedOrigins = originPatterns(20)

const PublishableKey = z
  .strictObject({
    id: z.string().describe('ID of the key; also the user ID of anonymous visitors'),
    name: z.string().describe('Name to distinguish your keys'),
    key_prefix: z.string().describe('First 12 characters of the key, for display'),
    allowed_origins: z
      .array(z.string())
      .describe('Origins where the key can be used; if empty, the organization’s allowed domains apply'),
    can_reveal: z.boolean().describe('Whether an admin can see the full key again'),
    revoked_at: Timestamp.nullable().describe('When the key was revoked; null if it’s active'),
    last_used_at: Timestamp.nullable().describe('When a ticket was last issued for the key; null if never'),
    created_at: Timestamp.describe('When the key was created'),
  })
  .meta({ id: 'PublishableKey' })

const keys = { tag: 'Publishable keys', resource: 'publishable_key' } as const

const examplePublishableKey = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3',
  name: 'Shop',
  key_prefix: 'pk_live_7Qm2',
  allowed_origins: ['https://app.example.com'],
  can_reveal: true,
  revoked_at: null,
  last_used_at: '2026-11-14T16:05:12.480Z',
  created_at: '2026-11-02T09:30:00.000Z',
} as const

export const listKeys = operation({
  ...keys,
  id: 'listPublishableKeys',
  method: 'get',
  path: '/publishable-keys',
  access: 'org',
  summary: 'List publishable keys',
  description:
    'Returns every key of the organization, including revoked ones, without the full key. To see a full key again, use the reveal operation.',
  query: OptionalPage.extend({ cursor: cursorAt(order.id) }),
  response: z.strictObject({ keys: z.array(PublishableKey).describe('The keys, without the full key') }),
  pages: true,
  errors: [],
  example: { response: { keys: [examplePublishableKey] } },
})

export const createKey = operation({
  ...keys,
  id: 'createPublishableKey',
  method: 'post',
  path: '/publishable-keys',
  creates: true,
  access: 'admin',
  usersOnly: usersDecideTrust,
  summary: 'Create a publishable key',
  description:
    'The response contains the full `key`, which goes into your page with the widget’s tag. It is meant to be public, so restrict it to your own origins. Each allowed origin counts as a site of your plan, and a wildcard counts as one site. If your plan has no site left, the request fails with `PAYMENT_REQUIRED`.',
  body: z.strictObject({
    name: Name.describe('Name to distinguish your keys, 1 to 100 characters'),
    allowed_origins: AllowedOrigins.prefault([]).describe(
      'Origins where the key can be used, such as `https://app.example.com` or `https://*.example.com`; at most 20. If empty, the organization’s allowed domains apply.',
    ),
  }),
  response: PublishableKey.extend({ key: z.string().describe('The full key, for the widget’s tag') }).meta({
    id: 'CreatedPublishableKey',
  }),
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
  example: {
    request: { name: 'Shop', allowed_origins: ['https://app.example.com'] },
    response: {
      ...examplePublishableKey,
      last_used_at: null,
      key: 'pk_live_7Qm2ZtR4x9LkV1bN8cYwF3hJ6sDpA0eGuT5iXoMfKrW2yBz',
    },
  },
})

export const updateKey = operation({
  ...keys,
  id: 'updatePublishableKey',
  method: 'patch',
  path: '/publishable-keys/{id}',
  access: 'admin',
  usersOnly: usersDecideTrust,
  summary: 'Rename a key or change its origins',
  description:
    'Fields that you omit stay unchanged. If you remove an origin, the widgets on its pages are disconnected within a minute. Each allowed origin counts as a site of your plan, and a wildcard counts as one site.',
  params: Id,
  body: z.strictObject({
    name: Name.optional().describe('New name, 1 to 100 characters'),
    allowed_origins: AllowedOrigins.optional().describe('New list of origins; replaces the old list'),
  }),
  response: PublishableKey,
  errors: ['RESOURCE_NOT_FOUND', 'PAYMENT_REQUIRED'],
  example: { request: { name: 'Shop', allowed_origins: ['https://app.example.com'] }, response: examplePublishableKey },
})

export const revealKey = operation({
  ...keys,
  id: 'revealPublishableKey',
  method: 'post',
  path: '/publishable-keys/{id}/reveal',
  access: 'admin',
  summary: 'Show the full key again',
  description: 'The request is recorded in the audit trail. Returns a 404 if the key’s `can_reveal` is false.',
  params: Id,
  response: z.strictObject({ key: z.string().describe('The full key') }),
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { key: 'pk_live_7Qm2ZtR4x9LkV1bN8cYwF3hJ6sDpA0eGuT5iXoMfKrW2yBz' } },
})

export const revokeKey = operation({
  ...keys,
  id: 'revokePublishableKey',
  method: 'delete',
  path: '/publishable-keys/{id}',
  access: 'admin',
  summary: 'Revoke a key',
  description:
    'Widgets that use the key are disconnected, and ticket requests fail with `INVALID_KEY`. A revoked key can’t be restored. Revoking it again changes nothing.',
  params: Id,
  response: PublishableKey,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { ...examplePublishableKey, revoked_at: '2026-11-14T16:05:12.480Z' } },
})
