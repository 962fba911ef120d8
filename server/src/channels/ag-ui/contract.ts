import { longestTicket } from '@inlay/protocol'
import { z } from 'zod'
import { operation } from '../../kernel/foundation/operation.ts'
import { Timestamp } from '../../kernel/foundation/shapes.ts'
import { fail, variant } from '../../kernel/lib/errors.ts'

/** Much longer than any issued token, and within the size limit of request headers. */
export const longestSessionToken = 4_096

const sessionErrors = {
  INVALID_TICKET: variant(
    401,
    'INVALID_TICKET',
    'The ticket isn’t valid: it’s unknown, used or expired, or access has ended. Get a new one from POST /api/auth/pk-ticket.',
  ),
  ORIGIN_NOT_ALLOWED: variant(
    403,
    'ORIGIN_NOT_ALLOWED',
    'The ticket is for another origin. Get a ticket on the page where you use it.',
  ),
} as const

export const sessionFailure = (code: keyof typeof sessionErrors) => fail(sessionErrors[code], code)

export const startAgentSession = operation({
  id: 'startAgentSession',
  method: 'post',
  path: '/agent/session',
  access: 'public',
  tag: 'Agent',
  summary: 'Exchange a ticket for a session token',
  description:
    'Lets your own chat talk to the agent over AG-UI, for the ticket’s end user or visitor. Send the token as `Authorization: Bearer` to `POST /ag-ui`; it works nowhere else. It’s valid for 15 minutes, but never longer than the user’s identity, and ends when the key is revoked or the end user is deleted. Get a new ticket and a new token before it expires. Errors: `INVALID_TICKET`: the ticket is unknown, used or expired, or its key or user has changed. `ORIGIN_NOT_ALLOWED`: the ticket was issued to a page of another origin.',
  body: z.strictObject({
    ticket: z.string().min(1).max(longestTicket).describe('Ticket from `POST /auth/pk-ticket`. It can be used once.'),
    previous_token: z
      .string()
      .min(1)
      .max(longestSessionToken)
      .optional()
      .describe(
        'The visitor’s last session token, even if it has expired. Lets an anonymous visitor continue their threads for up to 30 days. Not needed for end users.',
      ),
  }),
  response: z
    .strictObject({
      token: z.string().describe('Session token for `POST /ag-ui`'),
      expires_at: Timestamp.describe('When the token expires'),
    })
    .meta({ id: 'AgentSession' }),
  errors: [],
  ownErrors: sessionErrors,
  example: {
    request: { ticket: 'tk_EXAMPLE', previous_token: 'text' },
    response: { token: 'text', expires_at: '2026-11-14T16:05:12.480Z' },
  },
})
