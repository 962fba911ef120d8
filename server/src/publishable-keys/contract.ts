import { z } from 'zod'
import { operation } from '../operation.ts'
import { Id, name, originPatterns, Timestamp } from '../shapes.ts'

const Name = name(100)

const AllowedOrigins = originPatterns(20)

const PublishableKey = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    key_prefix: z.string().describe('The first 12 characters of the key'),
    allowed_origins: z.array(z.string()).describe('Where the key may be used; empty means the organization decides'),
    can_reveal: z.boolean().describe('Whether an admin can see the key again'),
    revoked_at: Timestamp.nullable(),
    last_used_at: Timestamp.nullable(),
    created_at: Timestamp,
  })
  .meta({ id: 'PublishableKey' })

const keys = { tag: 'Publishable keys', resource: 'publishable_key' } as const

export const listKeys = operation({
  ...keys,
  id: 'listPublishableKeys',
  method: 'get',
  path: '/publishable-keys',
  access: 'org',
  summary: 'The organization’s keys, revoked ones included',
  response: z.strictObject({ keys: z.array(PublishableKey) }),
  errors: [],
})

export const createKey = operation({
  ...keys,
  id: 'createPublishableKey',
  method: 'post',
  path: '/publishable-keys',
  creates: true,
  access: 'admin',
  summary: 'Create a key for the widget',
  description: 'Each allowed origin is a site of the plan, and a wildcard is one site.',
  body: z.strictObject({ name: Name, allowed_origins: AllowedOrigins.prefault([]) }),
  response: PublishableKey.extend({ key: z.string() }).meta({ id: 'CreatedPublishableKey' }),
  errors: ['RESOURCE_NOT_FOUND', 'DUPLICATE_RESOURCE', 'PAYMENT_REQUIRED'],
})

export const updateKey = operation({
  ...keys,
  id: 'updatePublishableKey',
  method: 'patch',
  path: '/publishable-keys/{id}',
  access: 'admin',
  summary: 'Rename a key or change where it may be used',
  description: 'Each allowed origin is a site of the plan, and a wildcard is one site.',
  params: Id,
  body: z.strictObject({ name: Name.optional(), allowed_origins: AllowedOrigins.optional() }),
  response: PublishableKey,
  errors: ['RESOURCE_NOT_FOUND', 'PAYMENT_REQUIRED'],
})

export const revealKey = operation({
  ...keys,
  id: 'revealPublishableKey',
  method: 'post',
  path: '/publishable-keys/{id}/reveal',
  access: 'admin',
  summary: 'Show a key again; who asked is kept in the audit trail',
  params: Id,
  response: z.strictObject({ key: z.string() }),
  errors: ['RESOURCE_NOT_FOUND'],
})

export const revokeKey = operation({
  ...keys,
  id: 'revokePublishableKey',
  method: 'delete',
  path: '/publishable-keys/{id}',
  access: 'admin',
  summary: 'Revoke a key for good; doing it twice changes nothing',
  params: Id,
  response: PublishableKey,
  errors: ['RESOURCE_NOT_FOUND'],
})
