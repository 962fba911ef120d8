import { z } from 'zod'
import { cursorAt, order } from '../../kernel/foundation/cursors.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Page, Timestamp } from '../../kernel/foundation/shapes.ts'

const Surface = z.enum(['ticket', 'id_token', 'scim', 'delegated_identity', 'sign_in'])

const Refusal = z
  .strictObject({
    id: z.string().describe('ID of the refusal'),
    surface: Surface.describe(
      'What was refused: a widget’s connection (`ticket`), a user’s ID token (`id_token`), a directory’s request (`scim`), a call to a connector (`delegated_identity`), or a sign-in at your organization’s provider (`sign_in`)',
    ),
    step: z.string().describe('Name of the check that failed'),
    code: z.string().describe('Error code that the caller received'),
    message: z.string().describe('What is wrong and how to fix it'),
    expected: z.string().nullable().describe('What would have passed the check; null if unknown'),
    seen: z.string().nullable().describe('What was sent instead, without secrets; null if unknown'),
    origin: z.string().nullable().describe('Origin of the page; null if the request had none'),
    publishable_key_id: z.string().nullable().describe('ID of the publishable key; null if none was used'),
    directory_id: z.string().nullable().describe('ID of the directory that sent the request; null for others'),
    directory_name: z.string().nullable().describe('Name of that directory; null if it was disconnected'),
    count: z.int().describe('Number of times this happened'),
    first_at: Timestamp.describe('When it first happened'),
    last_at: Timestamp.describe('When it last happened'),
  })
  .meta({ id: 'Refusal' })

export const listRefusals = operation({
  id: 'listRefusals',
  method: 'get',
  path: '/diagnostics/refusals',
  access: 'admin',
  tag: 'Diagnostics',
  summary: 'List refused requests',
  description:
    'Look here if a widget, a directory or a connector doesn’t work: each entry names the check that failed, what was expected and what was sent. Inlay keeps the last 200 distinct refusals; a repeated refusal increases its `count`. New refusals appear within a few seconds. Requests with an unknown key aren’t included, because they don’t belong to an organization.',
  query: Page.extend({
    cursor: cursorAt(order.time, order.id),
    surface: Surface.optional().describe('Only refusals of this kind'),
    directory_id: Id.shape.id.optional().describe('Only refusals of this directory’s requests'),
  }),
  response: z.strictObject({
    refusals: z.array(Refusal).describe('Refusals on this page of the list'),
    total: z.int().describe('Total number of refusals'),
  }),
  pages: true,
  errors: [],
  example: {
    response: {
      refusals: [
        {
          id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
          surface: 'id_token',
          step: 'audience',
          code: 'INVALID_TOKEN',
          message: 'The token is for another application; add its client ID to the allowed audiences',
          expected: '0oa1b2c3d4EXAMPLE',
          seen: '0oa9z8y7x6EXAMPLE',
          origin: 'https://app.example.com',
          publishable_key_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3',
          directory_id: 'text',
          directory_name: 'text',
          count: 1,
          first_at: '2026-11-14T16:05:12.480Z',
          last_at: '2026-11-14T16:05:12.480Z',
        },
      ],
      total: 1,
    },
  },
})

const Warning = z
  .strictObject({
    code: z.enum(['KEY_ALLOWS_ANY_ORIGIN']).describe('`KEY_ALLOWS_ANY_ORIGIN`: the key works on any website'),
    message: z.string().describe('What is wrong and what to change'),
    publishable_key_id: z.string().describe('ID of the publishable key'),
    origins: z
      .array(
        z.strictObject({
          origin: z.string().describe('Origin that used the key'),
          count: z.int().describe('Number of times it was used there'),
          first_at: Timestamp.describe('When it was first used there'),
          last_at: Timestamp.describe('When it was last used there'),
        }),
      )
      .describe('Where the key was used recently: a sample of at most 20 origins per organization'),
  })
  .meta({ id: 'Warning' })

export const listWarnings = operation({
  id: 'listWarnings',
  method: 'get',
  path: '/diagnostics/warnings',
  access: 'admin',
  tag: 'Diagnostics',
  summary: 'List settings that need attention',
  description:
    'A key without allowed origins, in an organization without allowed domains, works on any website, and its usage isn’t counted for any site. A warning disappears when you fix the setting.',
  response: z.strictObject({ warnings: z.array(Warning).describe('Current warnings') }),
  errors: [],
  example: {
    response: {
      warnings: [
        {
          code: 'KEY_ALLOWS_ANY_ORIGIN',
          message: 'The key “Shop” works on any website. Set its allowed origins.',
          publishable_key_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3',
          origins: [
            {
              origin: 'https://app.example.com',
              count: 1,
              first_at: '2026-11-14T16:05:12.480Z',
              last_at: '2026-11-14T16:05:12.480Z',
            },
          ],
        },
      ],
    },
  },
})
