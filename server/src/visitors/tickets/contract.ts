import { z } from 'zod'
import { operation } from '../../kernel/foundation/operation.ts'
import { type Failure, fail, variant } from '../../kernel/lib/errors.ts'

/** Errors of a ticket exchange, in addition to those in `errorTable`. The outer code is the same as `data.code`. */
const ticketErrors = {
  INVALID_BODY: variant(400, 'INVALID_BODY', 'The request body is missing or malformed', {
    field: z.string().describe('Name of the invalid field; empty for the whole body'),
    details: z.string().describe('Why the field is invalid'),
  }),
  INVALID_KEY: variant(401, 'INVALID_KEY', 'The publishable key is not valid'),
  ORIGIN_NOT_ALLOWED: variant(403, 'ORIGIN_NOT_ALLOWED', 'This origin may not use the publishable key'),
  INVALID_TOKEN: variant(401, 'INVALID_TOKEN', 'The ID token could not be verified'),
  TOKEN_EXPIRED: variant(401, 'TOKEN_EXPIRED', 'The ID token has expired'),
  IDP_NOT_CONFIGURED: variant(403, 'IDP_NOT_CONFIGURED', 'The organization has no identity provider yet'),
} as const

export const ticketFailure = (code: keyof typeof ticketErrors, data: Record<string, unknown> = {}, cause?: unknown) =>
  fail(ticketErrors[code], code, data, { cause })

/** An origin as browsers send it. Sandboxed pages send `null`, which no key can allow. */
const origin = /^(null|[A-Za-z][A-Za-z0-9+.-]*:\/\/[^\s/?#@\\]*)$/

export const exchangeTicket = operation({
  id: 'exchangeTicket',
  method: 'post',
  path: '/auth/pk-ticket',
  access: 'public',
  tag: 'Tickets',
  summary: 'Exchange a publishable key for a ticket',
  description:
    'The widget calls this before it connects; you only need it if you build your own widget. Send the publishable key and, if the user is signed in, their ID token. The ticket opens one connection to the runtime and expires after 60 seconds. Errors: `INVALID_BODY`: a field is missing or malformed. `INVALID_KEY`: the key is mistyped, unknown or revoked. `ORIGIN_NOT_ALLOWED`: add the page’s origin to the key. `INVALID_TOKEN`: the ID token failed a check; an admin can see which one in `GET /diagnostics/refusals`. `TOKEN_EXPIRED`: get a new ID token and try again. `IDP_NOT_CONFIGURED`: set up the organization’s identity provider first. `PAYMENT_REQUIRED`: the plan’s limit for end users is reached; existing end users can still connect.',
  body: z.strictObject({
    publishable_key: z.string().min(1).max(200).describe('The organization’s publishable key'),
    id_token: z
      .string()
      .min(1)
      .optional()
      .describe(
        'ID token of the signed-in user, from the organization’s identity provider, up to 16 KiB; omit it for an anonymous visitor',
      ),
    embedding_origin: z
      .string()
      .max(300)
      .regex(origin, 'Must be an origin such as https://shop.example.com')
      .optional()
      .describe(
        'Origin of the page that embeds the widget. Only used if the `Origin` header is missing or is Inlay’s own, as in the widget’s frame.',
      ),
  }),
  // Enough for an ID token of 16 KiB and the other fields.
  bodyLimit: 20 * 1024,
  response: z
    .strictObject({
      ticket: z.string().describe('Opens one connection; send it as the subprotocol `inlay.ticket.<ticket>`'),
      userId: z.string().describe('ID of the end user; without an ID token, the ID of the publishable key'),
      orgId: z.string().describe('ID of the organization that the key belongs to'),
      expiresAt: z.int().describe('When the ticket expires, in milliseconds since the Unix epoch'),
      expiresIn: z.int().describe('Seconds until the ticket expires'),
    })
    .meta({ id: 'Ticket' }),
  errors: ['PAYMENT_REQUIRED'],
  ownErrors: ticketErrors,
  refuseBody(problem: Failure) {
    const { field, details } = problem.envelope.data ?? {}
    return ticketFailure('INVALID_BODY', { field, details })
  },
  example: {
    request: {
      publishable_key: 'pk_live_7Qm2ZtR4x9LkV1bN8cYwF3hJ6sDpA0eGuT5iXoMfKrW2yBz',
      id_token: 'eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiIwMHUxIn0.c2lnbmF0dXJl',
      embedding_origin: 'https://app.example.com',
    },
    response: {
      ticket: 'tk_EXAMPLE',
      userId: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5',
      orgId: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2',
      expiresAt: 1_794_672_060_000,
      expiresIn: 60,
    },
  },
})
