import { z } from 'zod'
import { operation } from '../operation.ts'
import { Page, Timestamp } from '../shapes.ts'

const Refusal = z
  .strictObject({
    id: z.string(),
    surface: z.enum(['ticket', 'id_token', 'scim', 'delegated_identity']),
    step: z.string().describe('The check that failed'),
    code: z.string().describe('What the caller was told'),
    message: z.string().describe('What is wrong, and what would put it right'),
    expected: z.string().nullable(),
    seen: z.string().nullable(),
    origin: z.string().nullable(),
    publishable_key_id: z.string().nullable(),
    count: z.int(),
    first_at: Timestamp,
    last_at: Timestamp,
  })
  .meta({ id: 'Refusal' })

export const listRefusals = operation({
  id: 'listRefusals',
  method: 'get',
  path: '/diagnostics/refusals',
  access: 'admin',
  tag: 'Diagnostics',
  summary: 'Who was turned away lately, by which check, and what would put it right',
  description: 'The last 200 different refusals; the same one again counts up.',
  query: Page,
  response: z.strictObject({ refusals: z.array(Refusal), total: z.int() }),
  errors: [],
})

const Warning = z
  .strictObject({
    code: z.enum(['KEY_ALLOWS_ANY_ORIGIN']),
    message: z.string().describe('What is wrong, and what to set'),
    publishable_key_id: z.string(),
    origins: z
      .array(z.strictObject({ origin: z.string(), count: z.int(), first_at: Timestamp, last_at: Timestamp }))
      .describe('Where the key was used lately; a sample of at most 20 origins per organization'),
  })
  .meta({ id: 'Warning' })

export const listWarnings = operation({
  id: 'listWarnings',
  method: 'get',
  path: '/diagnostics/warnings',
  access: 'admin',
  tag: 'Diagnostics',
  summary: 'Settings that an administrator should change, for as long as they are so',
  description:
    'A key without allowed origins, in an organization without allowed domains, works on any website. Its requests count for no site.',
  response: z.strictObject({ warnings: z.array(Warning) }),
  errors: [],
})
