import { z } from 'zod'
import { usersDecideTrust } from '../../kernel/foundation/caller.ts'
import { cursorAt, order } from '../../kernel/foundation/cursors.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Page, Timestamp } from '../../kernel/foundation/shapes.ts'

const EndUser = z
  .strictObject({
    id: z.string().describe('ID of the end user'),
    organization_id: z.string().describe('ID of the organization that the end user belongs to'),
    external_id: z.string().describe('The user’s ID at your identity provider: the `sub` claim of the ID token'),
    email: z.string().describe('Email address from the ID token; empty if the token has none'),
    metadata: z
      .string()
      .describe(
        'The other claims about the user, such as name and groups, as a JSON string of at most 8 KiB. If they exceed that, the largest claims are omitted.',
      ),
    is_preview: z
      .boolean()
      .describe('Whether this is a member of your organization who tries the agent in the dashboard'),
    last_activity_at: Timestamp.describe('When the end user last connected'),
    created_at: Timestamp.describe('When the end user first connected'),
    updated_at: Timestamp.describe('When the profile was last changed'),
  })
  .meta({ id: 'EndUser' })

const common = { tag: 'End users', resource: 'end_user' } as const

const exampleEndUser = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5',
  organization_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2',
  external_id: '00u1a2b3c4EXAMPLE',
  email: 'ada@example.com',
  metadata: '{"name":"Ada Lovelace","email_verified":true}',
  is_preview: true,
  last_activity_at: '2026-11-14T16:05:12.480Z',
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
} as const

export const listEndUsers = operation({
  ...common,
  id: 'listEndUsers',
  method: 'get',
  path: '/end-users',
  access: 'org',
  summary: 'List end users',
  description:
    'End users are the signed-in users of your pages with the widget. An end user is created from the ID token at the first visit. The list is ordered by creation date. Anonymous visitors aren’t included. With `search`, returns only end users whose email address or external ID begins with the text. With more than 5000 matches, a page can have fewer than `limit`, or none; `Next-Cursor` says that there are more end users to search.',
  query: Page.extend({
    cursor: cursorAt(order.time, order.id),
    search: z
      .string()
      .trim()
      .min(1)
      .max(200)
      .optional()
      .describe(
        'Beginning of an email address or external ID, 1 to 200 characters. Upper and lower case are the same in email addresses.',
      ),
  }),
  response: z.strictObject({
    users: z.array(EndUser).describe('The end users of this page of the list'),
    total: z
      .int()
      .describe('Number of end users in the organization, or that match the search. A search counts up to 5000.'),
  }),
  pages: true,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { users: [exampleEndUser], total: 1 } },
})

export const getEndUser = operation({
  ...common,
  id: 'getEndUser',
  method: 'get',
  path: '/end-users/{id}',
  access: 'org',
  summary: 'Get an end user',
  description: 'Returns the profile from the last ID token. Returns a 404 if the end user doesn’t exist or was erased.',
  params: Id,
  response: EndUser,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleEndUser },
})

const providers = { tag: 'Identity provider', access: 'admin' } as const

export const listIssuers = operation({
  ...providers,
  id: 'listEndUserIssuers',
  method: 'get',
  path: '/identity-providers/issuers',
  summary: 'List the issuers of end users',
  description:
    'After a change of the identity provider, the end users of the former one stay, but no ID token leads to them. Anonymous visitors and previews aren’t counted.',
  response: z.strictObject({
    current_issuer: z
      .string()
      .nullable()
      .describe(
        'Issuer that ID tokens must have now; null if no provider is configured, or its spelling can’t be read',
      ),
    issuers: z
      .array(
        z.strictObject({
          issuer: z
            .string()
            .nullable()
            .describe('Issuer of the end users; null if it isn’t known, because they are from an earlier release'),
          end_users: z.int().describe('Number of its end users'),
        }),
      )
      .describe('Every issuer with end users, the one with most first'),
  }),
  errors: [],
  example: {
    response: {
      current_issuer: 'https://login.example.com',
      issuers: [
        { issuer: 'https://acme.okta.com', end_users: 212 },
        { issuer: 'https://login.example.com', end_users: 3 },
      ],
    },
  },
})

const Subject = z.string().min(1).max(255)

export const carryOverEndUsers = operation({
  ...providers,
  usersOnly: usersDecideTrust,
  id: 'carryOverEndUsers',
  method: 'post',
  path: '/identity-providers/carry-over',
  summary: 'Carry end users over to the current identity provider',
  description:
    'Lets end users of a former issuer keep their threads, usage, budgets and connected accounts under the current one. `email` pairs end users who have already come from the current provider with those whose address is the same, if both providers have verified it and no other end user of either has it. `list` names the pairs. If an end user has already come from the current provider, their threads and usage since then move too, their pages authenticate again, and accounts that they connected since then are disconnected. A preview changes nothing. A request carries over at most 1000 end users in one transaction; repeat it until `is_complete` is true.',
  bodyLimit: 1024 * 1024,
  body: z
    .strictObject({
      from_issuer: z
        .string()
        .min(1)
        .max(500)
        .nullable()
        .describe('Former issuer, as the list of issuers has it; null for end users without a known issuer'),
      by: z.enum(['email', 'list']).describe('`email` pairs end users by verified address, `list` as in `users`'),
      users: z
        .array(
          z.strictObject({
            from: Subject.describe('The end user’s `external_id`: their `sub` at the former issuer'),
            to: Subject.describe('Their `sub` at the current issuer'),
          }),
        )
        .min(1)
        .max(1000)
        .optional()
        .describe('The pairs, at most 1000; only with `list`'),
      is_preview: z.boolean().default(true).describe('Whether to only count, and change nothing'),
    })
    .superRefine(({ by, users }, context) => {
      if ((by === 'list') === (users !== undefined)) return
      const message = by === 'list' ? 'Required with list' : 'Only allowed with list'
      context.addIssue({ code: 'custom', path: ['users'], message })
    }),
  response: z
    .strictObject({
      is_preview: z.boolean().describe('Whether nothing was changed'),
      to_issuer: z.string().describe('The current issuer'),
      carried_over: z.int().describe('Number of end users who were, or would be, carried over'),
      merged: z.int().describe('How many of them had already come from the current provider'),
      conflict_count: z.int().describe('Number of end users who stay where they are'),
      conflicts: z
        .array(
          z.strictObject({
            external_id: z.string().describe('The end user’s ID at the former provider'),
            reason: z
              .enum(['unknown', 'ambiguous', 'unverified'])
              .describe(
                '`unknown`: the former issuer has no such end user. `ambiguous`: the list or another end user has the same subject or address. `unverified`: one of the providers hasn’t verified the address.',
              ),
          }),
        )
        .describe('The first 100 of them'),
      is_complete: z.boolean().describe('Whether no pairs are left; with `list`, always true'),
    })
    .meta({ id: 'CarryOver' }),
  errors: [],
  example: {
    request: {
      from_issuer: 'https://acme.okta.com',
      by: 'list',
      users: [{ from: '00u1a2b3c4EXAMPLE', to: 'ada' }],
      is_preview: true,
    },
    response: {
      is_preview: true,
      to_issuer: 'https://login.example.com',
      carried_over: 1,
      merged: 0,
      conflict_count: 0,
      conflicts: [],
      is_complete: true,
    },
  },
})
