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
})
