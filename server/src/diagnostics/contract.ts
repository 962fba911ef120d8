import { z } from 'zod'
import { operation } from '../foundation/operation.ts'
import { Page, Timestamp } from '../foundation/shapes.ts'

const Refusal = z
  .strictObject({
    id: z.string().describe('ID of the refusal'),
    surface: z
      .enum(['ticket', 'id_token', 'scim', 'delegated_identity'])
      .describe(
        'What was refused: a widget’s connection (`ticket`), a user’s ID token (`id_token`), a directory’s request (`scim`), or a call to a connector (`delegated_identity`)',
      ),
    step: z.string().describe('Name of the check that failed'),
    code: z.string().describe('Error code that the caller got'),
    message: z.string().describe('What is wrong and how to fix it'),
    expected: z.string().nullable().describe('What would have passed; null if that can’t be said'),
    seen: z.string().nullable().describe('What was sent instead, without secrets; null if that can’t be said'),
    origin: z.string().nullable().describe('Origin of the page; null if there was none'),
    publishable_key_id: z.string().nullable().describe('ID of the publishable key; null if none was used'),
    count: z.int().describe('How often this happened'),
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
    'Look here if a widget, a directory or a connector doesn’t work: each entry names the check that failed, what was expected and what was sent. Inlay keeps the last 200 different refusals; a repeated one increases `count`. New ones appear within a few seconds. Requests with an unknown key aren’t included, because they belong to no organization.',
  query: Page,
  response: z.strictObject({
    refusals: z.array(Refusal).describe('Refusals of this page of the list'),
    total: z.int().describe('Number of refusals that are kept'),
  }),
  errors: [],
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
          count: z.int().describe('How often it was used there'),
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
    'A key without allowed origins, in an organization without allowed domains, works on any website, and its usage counts for no site. A warning disappears when you fix the setting.',
  response: z.strictObject({ warnings: z.array(Warning).describe('Current warnings') }),
  errors: [],
})
