import { z } from 'zod'
import { usersDecideTrust } from '../../kernel/foundation/caller.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Success, Timestamp } from '../../kernel/foundation/shapes.ts'

const printable = /^[\x21-\x7e]+$/

const FrameSignIn = z
  .strictObject({
    is_active: z.boolean().describe('Whether end users can confirm their browsers at your identity provider'),
    reason: z.string().nullable().describe('Why they can’t; null if they can'),
    redirect_uri: z.string().describe('Redirect URI to register at your provider'),
    client: z
      .strictObject({
        issuer: z.string().describe('Issuer that the client was entered for'),
        client_id: z.string().describe('Client ID at the provider'),
        client_secret_last4: z
          .string()
          .describe('Last four characters of the client secret; empty for a public client'),
        created_at: Timestamp.describe('When the client was first set'),
        updated_at: Timestamp.describe('When it was last changed'),
      })
      .nullable()
      .describe('The client; null if none is set'),
  })
  .meta({ id: 'FrameSignIn' })

const provider = { tag: 'Identity provider', access: 'admin' } as const

const exampleClient = {
  issuer: 'https://acme.okta.com',
  client_id: 'inlay-hub',
  client_secret_last4: '9d1c',
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
} as const

const exampleFrameSignIn = { is_active: true, reason: null, redirect_uri: 'text', client: exampleClient } as const

export const getFrameSignIn = operation({
  ...provider,
  id: 'getFrameSignIn',
  method: 'get',
  path: '/identity-providers/frame-sign-in',
  summary: 'Get the client with which end users confirm their browsers',
  description:
    'Before the agent’s panel shows a user’s conversations of other sites, or lets them approve calls at tool servers, the user confirms their browser with one sign-in at your identity provider, in a window on Inlay’s own origin. This is the client of that sign-in. The client secret is never returned.',
  response: FrameSignIn,
  errors: [],
  example: { response: exampleFrameSignIn },
})

export const setFrameSignIn = operation({
  ...provider,
  id: 'setFrameSignIn',
  method: 'put',
  path: '/identity-providers/frame-sign-in',
  usersOnly: usersDecideTrust,
  summary: 'Set the client with which end users confirm their browsers',
  description:
    'Register an application at the identity provider that your pages use, with the redirect URI from the response, and enter it here. Its ID tokens must have the same `sub` as those of your pages; at providers with a `sub` per application, such as Entra ID, use the application of your pages. The client is bound to the current issuer: after you change the issuer, enter it again.',
  body: z.strictObject({
    client_id: z
      .string()
      .min(1)
      .max(255)
      .regex(printable, 'Must consist of ASCII characters without spaces')
      .describe('Client ID at your identity provider'),
    client_secret: z
      .string()
      .min(8, 'Must have at least 8 characters: the last four are shown')
      .max(2000)
      .regex(printable, 'Must consist of ASCII characters without spaces')
      .nullable()
      .optional()
      .describe(
        'Client secret. It’s stored encrypted and never returned. If absent, the stored one stays, unless the issuer has changed. Null for a public client.',
      ),
  }),
  response: FrameSignIn,
  errors: [],
  example: { request: { client_id: 'inlay-hub', client_secret: 'cs_EXAMPLE_9d1c' }, response: exampleFrameSignIn },
})

export const deleteFrameSignIn = operation({
  ...provider,
  id: 'deleteFrameSignIn',
  method: 'delete',
  path: '/identity-providers/frame-sign-in',
  usersOnly: usersDecideTrust,
  summary: 'Delete the client with which end users confirm their browsers',
  description: 'Browsers that are confirmed stay confirmed until they expire or you remove them.',
  response: FrameSignIn,
  errors: [],
  example: { response: exampleFrameSignIn },
})

const ConfirmedBrowser = z
  .strictObject({
    id: z.string().describe('ID of the confirmed browser'),
    how: z.enum(['provider']).describe('What proved the user: a sign-in at your identity provider'),
    frame_count: z.int().describe('Number of sites whose panel is confirmed in this browser'),
    created_at: Timestamp.describe('When the user last proved who they are'),
    last_used_at: Timestamp.describe('When a panel was last confirmed in this browser'),
    expires_at: Timestamp.describe('When the user has to confirm the browser again'),
  })
  .meta({ id: 'ConfirmedBrowser' })

export const listConfirmedBrowsers = operation({
  id: 'listConfirmedBrowsers',
  method: 'get',
  path: '/end-users/{id}/confirmed-browsers',
  access: 'admin',
  tag: 'End users',
  resource: 'end_user',
  summary: 'List the confirmed browsers of an end user',
  description:
    'Browsers in which the end user has proven who they are, so that the agent’s panel there shows their conversations of all sites and lets them approve calls at tool servers. The one that was used last is first.',
  params: Id,
  response: z.strictObject({ browsers: z.array(ConfirmedBrowser).describe('The browsers, at most 20') }),
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      browsers: [
        {
          id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
          how: 'provider',
          frame_count: 1,
          created_at: '2026-11-02T09:30:00.000Z',
          last_used_at: '2026-11-14T16:05:12.480Z',
          expires_at: '2026-11-14T16:05:12.480Z',
        },
      ],
    },
  },
})

export const removeConfirmedBrowser = operation({
  id: 'removeConfirmedBrowser',
  method: 'delete',
  path: '/confirmed-browsers/{id}',
  access: 'admin',
  tag: 'End users',
  resource: 'confirmed_browser',
  summary: 'Remove a confirmed browser',
  description:
    'The panels in that browser lose what the confirmation gave them, at once. The user stays signed in to your pages, and can confirm the browser again.',
  params: Id,
  response: Success,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { success: true } },
})
