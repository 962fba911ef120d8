import { z } from 'zod'
import { fail, variant } from '../errors.ts'
import { operation } from '../operation.ts'

/** The ways a ticket exchange fails, beside those of the interface's table. The outer code is `data.code`. */
const ticketErrors = {
  INVALID_BODY: variant(400, 'INVALID_BODY', 'The request body is missing or malformed', {
    field: z.string(),
    details: z.string(),
  }),
  INVALID_KEY: variant(401, 'INVALID_KEY', 'The publishable key is not valid'),
  ORIGIN_NOT_ALLOWED: variant(403, 'ORIGIN_NOT_ALLOWED', 'This origin may not use the publishable key'),
  INVALID_TOKEN: variant(401, 'INVALID_TOKEN', 'The ID token could not be verified'),
  TOKEN_EXPIRED: variant(401, 'TOKEN_EXPIRED', 'The ID token has expired'),
  IDP_NOT_CONFIGURED: variant(403, 'IDP_NOT_CONFIGURED', 'The organization trusts no identity provider yet'),
} as const

export const ticketFailure = (code: keyof typeof ticketErrors, data: Record<string, unknown> = {}, cause?: unknown) =>
  fail(ticketErrors[code], code, data, { cause })

/** The form that browsers give an origin. Sandboxed pages have `null`, which no key's list can allow. */
const origin = /^(null|[A-Za-z][A-Za-z0-9+.-]*:\/\/[^\s/?#@\\]*)$/

export const exchangeTicket = operation({
  id: 'exchangeTicket',
  method: 'post',
  path: '/auth/pk-ticket',
  access: 'public',
  tag: 'Tickets',
  summary: 'Exchange a publishable key, and an ID token, for a ticket to the runtime',
  description: 'Called by the widget. The ticket can be used once, for a minute.',
  body: z.strictObject({
    publishable_key: z.string().min(1).max(200),
    id_token: z.string().min(1).optional().describe('From the organization’s identity provider'),
    embedding_origin: z
      .string()
      .max(300)
      .regex(origin, 'Must be an origin such as https://shop.example.com')
      .optional()
      .describe('Where the widget is embedded, when its own frame asks'),
  }),
  // An ID token of at most 16 KiB, and what goes with it.
  bodyLimit: 20 * 1024,
  response: z
    .strictObject({
      ticket: z.string(),
      userId: z.string().describe('The end user, or the key without an ID token'),
      orgId: z.string(),
      expiresAt: z.int().describe('Milliseconds since the Unix epoch'),
      expiresIn: z.int().describe('Seconds'),
    })
    .meta({ id: 'Ticket' }),
  errors: ['PAYMENT_REQUIRED'],
  ownErrors: ticketErrors,
  refuseBody(problem) {
    const { field, details } = problem.envelope.data ?? {}
    return ticketFailure('INVALID_BODY', { field, details })
  },
})
