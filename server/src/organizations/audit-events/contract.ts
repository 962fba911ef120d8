import { z } from 'zod'
import { operation } from '../../kernel/foundation/operation.ts'
import { moment, Page, Timestamp } from '../../kernel/foundation/shapes.ts'
import { variant } from '../../kernel/lib/errors.ts'
import { readHead } from '../../kernel/stores/audit/chain.ts'

const AuditEvent = z
  .strictObject({
    id: z.string().describe('ID of the event'),
    sequence: z.int().describe('Position in the organization’s trail, from 1 without gaps'),
    actor: z
      .string()
      .describe(
        'Email address of the user who made the change, `service-account:` and the name of a service account, or the name of the component that did',
      ),
    actor_id: z
      .uuid()
      .nullable()
      .describe(
        'ID of that user or service account; null for components, and for events from before IDs were recorded',
      ),
    action: z.string().describe('What was done, such as `publishable_key.created`'),
    target: z.string().describe('ID of the resource that was changed'),
    data: z.record(z.string(), z.unknown()).describe('Details of the change, without secrets'),
    created_at: Timestamp.describe('When the change was made'),
    hash: z.string().describe('HMAC over the event and the previous hash, with a key that isn’t in the database'),
  })
  .meta({ id: 'AuditEvent' })

const ExportedEvent = z
  .strictObject({
    ...AuditEvent.shape,
    head: z.string().describe('This event as a head: pass it as `from` to continue after it'),
  })
  .meta({ id: 'ExportedAuditEvent' })

const Verification = z
  .strictObject({
    status: z
      .enum(['intact', 'broken', 'unverified'])
      .describe(
        '`intact` if every event up to `head` fits the chain; `broken` if one was changed, removed or added; `unverified` until the server has verified the trail for the first time',
      ),
    length: z.int().describe('Number of events that were verified and fit, counted from the first'),
    verified_at: Timestamp.nullable().describe('When the server last verified events; null if it never has'),
    newer_events: z
      .int()
      .describe('Number of events after `head`, which the server verifies in the background, usually within seconds'),
    head: z
      .string()
      .describe(
        'The last event that was verified and fits: organization, sequence and hash. Keep it somewhere else: `npx inlay audit verify --from` proves later that the trail still contains it.',
      ),
    broken_at: z.int().nullable().describe('Sequence of the first event that doesn’t fit; null if intact'),
  })
  .meta({ id: 'AuditVerification' })

const Word = z.string().min(1).max(300).optional()

const exampleAuditEvent = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  sequence: 42,
  actor: 'ada@example.com',
  actor_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  action: 'publishable_key.created',
  target: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3',
  data: { name: 'Shop' },
  created_at: '2026-11-02T09:30:00.000Z',
  hash: '5f1d7a84e02c4b6d9c3fEXAMPLE',
} as const

export const listAuditEvents = operation({
  id: 'listAuditEvents',
  method: 'get',
  path: '/audit-events',
  access: 'admin',
  tag: 'Audit events',
  summary: 'List audit events',
  description:
    'Returns the changes in the organization, newest first, and whether the trail is intact, according to the latest verification in the background. Requires a plan with audit logs. Pass `next_cursor` as `cursor` to get the next page; filters can be combined.',
  query: z.strictObject({
    limit: Page.shape.limit.describe('Maximum number of events to return'),
    cursor: z
      .string()
      .regex(/^\d{1,15}$/, 'Must be the next_cursor of a page')
      .optional()
      .describe('The `next_cursor` of the previous page'),
    actor: Word.describe('Return only changes by this actor'),
    actor_id: z.uuid().optional().describe('Return only changes by this user or service account'),
    action: Word.describe('Return only this action, such as `member.removed`'),
    target: Word.describe('Return only changes to this resource'),
    start_date: moment('00:00:00.000').describe(
      'Return only changes at or after this time; a date means the start of that UTC day',
    ),
    end_date: moment('23:59:59.999').describe(
      'Return only changes up to this time; a date includes that whole UTC day',
    ),
  }),
  response: z.strictObject({
    events: z.array(AuditEvent).describe('Events on this page of the list'),
    next_cursor: z.string().nullable().describe('Cursor of the next page; null on the last page'),
    verification: Verification.describe('Whether the whole trail is intact'),
  }),
  errors: [],
  example: {
    response: {
      events: [exampleAuditEvent],
      next_cursor: null,
      verification: {
        status: 'intact',
        length: 42,
        verified_at: '2026-11-14T16:05:12.480Z',
        newer_events: 1,
        head: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2:42:5f1d7a84e02c4b6d9c3fEXAMPLE',
        broken_at: null,
      },
    },
  },
})

export const exportErrors = {
  AUDIT_HEAD_NOT_FOUND: variant(
    409,
    'AUDIT_HEAD_NOT_FOUND',
    'The organization’s audit trail doesn’t contain this head. It belongs to another organization, or events were changed or removed. Ask the operator to run `npx inlay audit verify --from` with it.',
  ),
}

export const exportAuditEvents = operation({
  id: 'exportAuditEvents',
  method: 'get',
  path: '/audit-events/export',
  access: 'admin',
  tag: 'Audit events',
  summary: 'Export audit events as JSON Lines',
  description:
    'Streams every event after a head, oldest first, one JSON object per line, for a SIEM. Requires a plan with audit logs. Store the `head` of the last line and pass it as `from` next time. The response ends with the newest event, or after five minutes; it’s complete if it ends without a connection error. The response is a 409 with `AUDIT_HEAD_NOT_FOUND` if the trail doesn’t contain `from`.',
  query: z.strictObject({
    from: z
      .string()
      .max(200)
      .refine((text) => readHead(text) !== undefined, 'Must be a head: <organization id>:<sequence>:<hash>')
      .optional()
      .describe('Return only events after this one: the `head` of an exported event, or of the list’s `verification`'),
  }),
  response: ExportedEvent,
  lines: true,
  errors: [],
  ownErrors: exportErrors,
  example: {
    response: { ...exampleAuditEvent, head: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2:42:5f1d7a84e02c4b6d9c3fEXAMPLE' },
  },
})
