import { z } from 'zod'
import { operation } from '../operation.ts'
import { Page, Timestamp } from '../shapes.ts'

const AuditEvent = z
  .strictObject({
    id: z.string(),
    sequence: z.int().describe('Its place in the organization’s trail, from 1 on without a gap'),
    actor: z.string().describe('A person’s address, or which part of the service it was'),
    action: z.string(),
    target: z.string().describe('What was changed'),
    data: z.record(z.string(), z.unknown()),
    created_at: Timestamp,
    hash: z.string().describe('An HMAC of the event and the hash before it, with a key that the database doesn’t have'),
  })
  .meta({ id: 'AuditEvent' })

const Verification = z
  .strictObject({
    status: z.enum(['intact', 'broken']),
    length: z.int().describe('How many events fit, from the first one on'),
    head: z
      .string()
      .describe(
        'The last event that fits: organization, sequence and hash. Keep it elsewhere: `npx inlay audit verify --from` proves later that the trail still contains it.',
      ),
    broken_at: z.int().nullable().describe('The sequence of the first event that does not fit'),
  })
  .meta({ id: 'AuditVerification' })

const Word = z.string().min(1).max(300).optional()

/** A moment, or with a date the first or the last one of that UTC day. */
const moment = (timeOfDay: string) =>
  z
    .union([z.iso.date(), z.iso.datetime({ offset: true })], 'An ISO 8601 date or date-time is expected')
    .transform((text, context) => {
      const ms = Date.parse(text.length === 10 ? `${text}T${timeOfDay}Z` : text)
      if (ms >= Date.UTC(1970) && ms < Date.UTC(10_000)) return new Date(ms).toISOString()
      context.addIssue({ code: 'custom', message: 'Dates from 1970-01-01 to 9999-12-31 are known' })
      return z.NEVER
    })
    .optional()

export const listAuditEvents = operation({
  id: 'listAuditEvents',
  method: 'get',
  path: '/audit-events',
  access: 'admin',
  tag: 'Audit events',
  summary: 'What was changed in the organization, the newest first, and whether the trail is intact',
  description: 'Needs a plan with audit logs.',
  query: z.strictObject({
    limit: Page.shape.limit,
    cursor: z
      .string()
      .regex(/^\d{1,15}$/, 'The next_cursor of a page is expected')
      .optional(),
    actor: Word,
    action: Word,
    target: Word,
    start_date: moment('00:00:00.000'),
    end_date: moment('23:59:59.999').describe('Inclusive'),
  }),
  response: z.strictObject({
    events: z.array(AuditEvent),
    next_cursor: z.string().nullable().describe('For the next page; null on the last one'),
    verification: Verification,
  }),
  errors: [],
})
