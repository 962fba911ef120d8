import { z } from 'zod'
import { usersDecideAccess } from '../../kernel/foundation/caller.ts'
import { cursorAt, order } from '../../kernel/foundation/cursors.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, name, OptionalPage, Role, Success, Timestamp } from '../../kernel/foundation/shapes.ts'

const Name = name(100)

const Expiry = z.iso
  .datetime({ offset: true, error: 'Must be an ISO 8601 date-time' })
  .refine((text) => Date.parse(text) < Date.UTC(10_000), 'Must be before the year 10000')
  .transform((text) => new Date(text).toISOString())
  .nullable()

const ServiceAccount = z
  .strictObject({
    id: z.string().describe('ID of the service account'),
    name: z.string().describe('Name in the audit trail, where the actor is `service-account:` and this name'),
    role: Role.describe('What the service account can do: `member` or `admin`'),
    key_last4: z.string().describe('Last four characters of the key, to recognize it'),
    key_created_at: Timestamp.describe('When the key was created, by creating the account or rotating the key'),
    previous_key: z
      .strictObject({
        last4: z.string().describe('Last four characters of the previous key'),
        expires_at: Timestamp.describe('When the previous key stops working'),
        last_used_at: Timestamp.nullable().describe(
          'When the previous key was last used since the rotation, to the minute; null if it wasn’t',
        ),
      })
      .nullable()
      .describe('The key before the last rotation, while it still works; null otherwise'),
    expires_at: Timestamp.nullable().describe('When the service account stops working; null if it doesn’t expire'),
    last_used_at: Timestamp.nullable().describe('When a key was last used, to the minute; null if never'),
    created_by: z.string().describe('Email address of the admin who created the service account'),
    created_at: Timestamp.describe('When the service account was created'),
  })
  .meta({ id: 'ServiceAccount' })

const WithKey = ServiceAccount.extend({
  key: z.string().describe('The full key. It isn’t stored and can’t be shown again.'),
}).meta({ id: 'ServiceAccountWithKey' })

const accounts = { tag: 'Service accounts', resource: 'service_account', access: 'admin' } as const
const writing = { ...accounts, usersOnly: usersDecideAccess } as const

const examplePreviousKey = {
  last4: 'x8Qa',
  expires_at: '2026-11-14T16:05:12.480Z',
  last_used_at: '2026-11-14T16:05:12.480Z',
} as const

const exampleServiceAccount = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  name: 'CI deploy',
  role: 'admin',
  key_last4: '3cVf',
  key_created_at: '2026-11-14T16:05:12.480Z',
  previous_key: examplePreviousKey,
  expires_at: '2026-11-14T16:05:12.480Z',
  last_used_at: '2026-11-14T16:05:12.480Z',
  created_by: 'ada@example.com',
  created_at: '2026-11-02T09:30:00.000Z',
} as const

export const listServiceAccounts = operation({
  ...accounts,
  id: 'listServiceAccounts',
  method: 'get',
  path: '/service-accounts',
  summary: 'List service accounts',
  description: 'Returns the organization’s service accounts, newest first, including expired ones, without their keys.',
  query: OptionalPage.extend({ cursor: cursorAt(order.id) }),
  response: z.strictObject({
    service_accounts: z.array(ServiceAccount).describe('The service accounts, without their keys'),
  }),
  pages: true,
  errors: [],
  example: { response: { service_accounts: [exampleServiceAccount] } },
})

export const getServiceAccount = operation({
  ...accounts,
  id: 'getServiceAccount',
  method: 'get',
  path: '/service-accounts/{id}',
  summary: 'Get a service account',
  description: 'Returns one service account without its key.',
  params: Id,
  response: ServiceAccount,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleServiceAccount },
})

const exampleSettings = { name: 'CI deploy', role: 'admin', expires_at: '2026-11-14T16:05:12.480Z' } as const

const exampleServiceAccountWithKey = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  name: 'CI deploy',
  role: 'admin',
  key_last4: '3cVf',
  key_created_at: '2026-11-14T16:05:12.480Z',
  previous_key: null,
  expires_at: '2026-11-14T16:05:12.480Z',
  last_used_at: null,
  created_by: 'ada@example.com',
  created_at: '2026-11-02T09:30:00.000Z',
  key: 'sk_live_EXAMPLE_7Qm2ZtR4x9LkV1bN8cYwF3hJ6sDpA0eGuT5iXo3cVf',
} as const

export const createServiceAccount = operation({
  ...writing,
  id: 'createServiceAccount',
  method: 'post',
  path: '/service-accounts',
  creates: true,
  summary: 'Create a service account',
  description:
    'The response contains the `key`, which servers and CI jobs send as bearer token to this API and to the MCP endpoint. Store it now: Inlay only keeps a hash. The account acts in this organization only, with its role, and doesn’t use a seat. An organization can have 100 service accounts.',
  body: z.strictObject({
    name: Name.describe('Name in the audit trail, 1 to 100 characters; unique in the organization'),
    role: Role.describe('`member` to read most things and write skills; `admin` to change settings'),
    expires_at: Expiry.default(null).describe('When the service account stops working; null or omitted for never'),
  }),
  response: WithKey,
  errors: ['DUPLICATE_RESOURCE'],
  example: { request: exampleSettings, response: exampleServiceAccountWithKey },
})

export const updateServiceAccount = operation({
  ...writing,
  id: 'updateServiceAccount',
  method: 'patch',
  path: '/service-accounts/{id}',
  summary: 'Rename a service account, or change its role or expiry',
  description:
    'Fields that you omit stay unchanged. The key stays the same, and the change applies to it within seconds. Audit events keep the name that the account had at the time.',
  params: Id,
  body: z.strictObject({
    name: Name.optional().describe('New name, 1 to 100 characters'),
    role: Role.optional().describe('New role'),
    expires_at: Expiry.optional().describe('New expiry; null for never'),
  }),
  response: ServiceAccount,
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE'],
  example: { request: exampleSettings, response: exampleServiceAccount },
})

export const rotateServiceAccountKey = operation({
  ...writing,
  id: 'rotateServiceAccountKey',
  method: 'post',
  path: '/service-accounts/{id}/rotate',
  creates: true,
  summary: 'Replace the key',
  description:
    'Returns a new key. The current key keeps working for `overlap_hours`, so that you can replace it everywhere. A key from an earlier rotation stops working at once, because an account has at most two keys.',
  params: Id,
  body: z.strictObject({
    overlap_hours: z
      .int()
      .min(0)
      .max(168)
      .default(24)
      .describe('How long the current key keeps working, in hours; 0 ends it at once, for example because it leaked'),
  }),
  response: WithKey,
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    request: { overlap_hours: 24 },
    response: { ...exampleServiceAccountWithKey, previous_key: examplePreviousKey },
  },
})

export const endPreviousServiceAccountKey = operation({
  ...writing,
  id: 'endPreviousServiceAccountKey',
  method: 'delete',
  path: '/service-accounts/{id}/previous-key',
  summary: 'End the previous key',
  description:
    'The key from before the last rotation stops working within seconds. If it has already stopped, nothing changes.',
  params: Id,
  response: ServiceAccount,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleServiceAccount },
})

export const deleteServiceAccount = operation({
  ...writing,
  id: 'deleteServiceAccount',
  method: 'delete',
  path: '/service-accounts/{id}',
  summary: 'Delete a service account and revoke its keys',
  description:
    'Its keys stop working within seconds and can’t be restored. What the account did stays in the audit trail.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})
