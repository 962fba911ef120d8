import { z } from 'zod'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Timestamp } from '../../kernel/foundation/shapes.ts'

export const startPreview = operation({
  id: 'startPreview',
  method: 'post',
  path: '/publishable-keys/{id}/preview',
  access: 'org',
  usersOnly: 'a preview belongs to the user who starts it',
  tag: 'Publishable keys',
  resource: 'publishable_key',
  summary: 'Start a preview of the agent',
  description:
    'Lets the caller talk to the agent as an end user of their own, without an identity provider and without a page of yours. The dashboard’s page “Try it” uses this. Send `token` in place of an ID token when you exchange the key for a ticket. It only works on Inlay’s own origin, and ends with the caller’s membership and session. What the agent does is metered like any other use. The response is a 404 if the key is revoked or can’t be revealed.',
  params: Id,
  response: z
    .strictObject({
      token: z.string().describe('Stands for an ID token in the ticket exchange; valid for 15 minutes'),
      expires_at: Timestamp.describe('When the token expires'),
      publishable_key: z.string().describe('The key itself, as the widget needs it'),
      end_user_id: z.string().describe('ID of the end user who stands for the caller'),
      model: z
        .strictObject({
          source: z
            .enum(['organization', 'operator', 'ollama', 'demo', 'none'])
            .describe('Where the model comes from, as in the agent’s settings'),
          name: z.string().nullable().describe('Name of the model; null if there is none'),
        })
        .describe('The model that the agent uses'),
    })
    .meta({ id: 'Preview' }),
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      token: 'inlay_preview_8c1d2e3f.eyJvcmdhbml6YXRpb25faWQiEXAMPLE.V1xLq0c2hEXAMPLE',
      expires_at: '2026-11-14T16:20:12.480Z',
      publishable_key: 'pk_live_7Qm2ZtR4x9LkV1bN8cYwF3hJ6sDpA0eGuT5iXoMfKrW2yBz',
      end_user_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5',
      model: { source: 'operator', name: 'gpt-5-mini' },
    },
  },
})
