import { z } from 'zod'
import { operation } from '../operation.ts'
import { moment, Page, Timestamp } from '../shapes.ts'

const AuditEvent = z
  .strictObject({
    id: z.string().describe('ID of the event'),
    sequence: z.int().describe('Position in the organization’s trail, from 1 without gaps'),
    actor: z.string().describe('Email address of the user who made the change, or the part of the service that did'),
    action: z.string().describe('What was done, such as `publishable_key.created`'),
    target: z.string().describe('ID of the resource that was changed'),
    data: z.record(z.string(), z.unknown()).describe('Details of the change, without secrets'),
    created_at: Timestamp.describe('When the change was made'),
    hash: z.string().describe('HMAC over the event and the previous hash, with a key that isn’t in the database'),
  })
  .meta({ id: 'AuditEvent' })

const Verification = z
  .strictObject({
    status: z
      .enum(['intact', 'broken'])
      .describe('`intact` if every event fits the chain; `broken` if one was changed, removed or added'),
    length: z.int().describe('Number of events that fit, counted from the first'),
    head: z
      .string()
      .describe(
        'The last event that fits: organization, sequence and hash. Keep it somewhere else: `npx inlay audit verify --from` proves later that the trail still contains it.',
      ),
    broken_at: z.int().nullable().describe('Sequence of the first event that doesn’t fit; null if intact'),
  })
  .meta({ id: 'AuditVerification' })

const Word = z.string().min(1).max(300).optional()

export const listAuditEvents = operation({
  id: 'listAuditEvents',
  method: 'get',
  path: '/audit-events',
  access: 'admin',
  tag: 'Audit events',
  summary: 'List audit events',
  description:
    'Returns the changes in the organization, newest first, and whether the trail is intact. Needs a plan with audit logs. Pass `next_cursor` as `cursor` to get the next page; filters can be combined.',
  query: z.strictObject({
    limit: Page.shape.limit.describe('Maximum number of events to return'),
    cursor: z
      .string()
      .regex(/^\d{1,15}$/, 'The next_cursor of a page is expected')
      .optional()
      .describe('The `next_cursor` of the page before'),
    actor: Word.describe('Only changes by this actor'),
    action: Word.describe('Only this action, such as `member.removed`'),
    target: Word.describe('Only changes of this resource'),
    start_date: moment('00:00:00.000').describe(
      'Only changes at or after this time; a date means the start of that UTC day',
    ),
    end_date: moment('23:59:59.999').describe('Only changes up to this time; a date includes that whole UTC day'),
  }),
  response: z.strictObject({
    events: z.array(AuditEvent).describe('Events of this page of the list'),
    next_cursor: z.string().nullable().describe('Cursor of the next page; null on the last page'),
    verification: Verification.describe('Whether the whole trail is intact'),
  }),
  errors: [],
})
