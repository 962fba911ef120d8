import { z } from 'zod'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, moment, Timestamp } from '../../kernel/foundation/shapes.ts'
import { isId } from '../../kernel/lib/ids.ts'

const Outcome = z.enum(['succeeded', 'tool_error', 'failed', 'refused', 'cancelled', 'timed_out'])

export const ToolCallRecord = z
  .strictObject({
    id: z.string().describe('ID of the call. The page and the governance provider get the same ID.'),
    at: Timestamp.describe('When the call started'),
    user_id: z
      .string()
      .describe(
        'ID of the user who called the tool. If the agent called it: ID of the end user, or of the publishable key for a visitor.',
      ),
    user_email: z
      .string()
      .describe(
        'Email address that the user has now; empty for visitors, for users without one, and after the user was erased',
      ),
    client_id: z.string().nullable().describe('ID of the OAuth client; null if the token wasn’t issued to one'),
    client_name: z
      .string()
      .nullable()
      .describe('Name of the client or agent at the time of the call; null if it has none'),
    source_type: z.enum(['page', 'connector']).nullable().describe('Where the tool was found; null if it wasn’t found'),
    source: z
      .string()
      .nullable()
      .describe('Origin of the page or name of the connector; null if the tool wasn’t found'),
    tool: z.string().describe('Name of the tool; a connector’s tools are named `<connector>.<tool>`'),
    definition_hash: z
      .string()
      .nullable()
      .describe('SHA-256 of the tool’s definition; null for a connector’s tool that ran without asking the user'),
    arguments_hash: z
      .string()
      .describe('Keyed hash of the arguments. Equal arguments have equal hashes within an organization.'),
    approval: z
      .enum(['not_needed', 'allowed', 'always_allowed', 'declined', 'unknown'])
      .describe(
        'The user’s decision about the call, as reported by their browser, or given to the agent. `not_needed`: the user wasn’t asked. `allowed`, `declined`: the user was asked. `always_allowed`: the user has a permission for this definition of the tool. `unknown`: the call ended before the user answered or was asked.',
      ),
    approval_at: Timestamp.nullable().describe('When the user allowed or declined the call; null if they did neither'),
    governance: z
      .enum(['none', 'allowed', 'refused', 'result_refused'])
      .describe(
        'Decision of the governance provider: `refused` before the tool ran, `result_refused` after it ran, `none` if no provider was asked',
      ),
    outcome: Outcome.describe(
      'How the call ended. `tool_error`: the tool ran and reported an error. `failed`: the tool returned no result.',
    ),
    failure_code: z.string().nullable().describe('Why the call has no result; null if the tool returned one'),
    duration_ms: z.int().describe('Duration of the call, in milliseconds'),
  })
  .meta({ id: 'ToolCall' })

export const listToolCalls = operation({
  id: 'listToolCalls',
  method: 'get',
  path: '/tool-calls',
  access: 'admin',
  tag: 'Tool calls',
  summary: 'List tool calls',
  description:
    'Returns the tool calls through the hub, newest first. Calls on other nodes appear a few seconds after they end. With `format`, the response is one page as CSV or JSON Lines, and the `Next-Cursor` header has the cursor of the next page.',
  query: z.strictObject({
    limit: z.int().min(1).max(1_000).default(50).describe('Maximum number of calls per page'),
    cursor: z
      .string()
      .regex(/^\d{1,13}_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'Must be the next_cursor of a page')
      .optional()
      .describe('The `next_cursor` of the previous page'),
    user_id: z.string().refine(isId, 'Must be the ID of a user').optional().describe('Only calls by or for this user'),
    tool: z.string().min(1).max(128).optional().describe('Only calls to the tool with this name'),
    outcome: Outcome.optional().describe('Only calls with this outcome'),
    start_date: moment('00:00:00.000').describe('Only calls at or after this date or time'),
    end_date: moment('23:59:59.999').describe(
      'Only calls at or before this date or time; a date includes the whole day',
    ),
    format: z.enum(['json', 'csv', 'jsonl']).default('json').describe('Format of the response'),
  }),
  response: z.strictObject({
    tool_calls: z.array(ToolCallRecord).describe('The calls, newest first'),
    next_cursor: z.string().nullable().describe('Cursor of the next page; null on the last page'),
  }),
  rows: 'tool_calls',
  errors: [],
  example: {
    response: {
      tool_calls: [
        {
          id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
          at: '2026-11-14T16:05:12.480Z',
          user_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1002',
          user_email: 'ada@example.com',
          client_id: 'dcr_EXAMPLE',
          client_name: 'Claude',
          source_type: 'page',
          source: 'https://shop.example.com',
          tool: 'add_to_cart',
          definition_hash: '9a3e0c1f5bEXAMPLE',
          arguments_hash: 'q1kX0nJm2Vb8wPzEXAMPLE',
          approval: 'allowed',
          approval_at: '2026-11-14T16:05:14.120Z',
          governance: 'allowed',
          outcome: 'succeeded',
          failure_code: null,
          duration_ms: 1840,
        },
      ],
      next_cursor: null,
    },
  },
})

export const getToolCallContents = operation({
  id: 'getToolCallContents',
  method: 'get',
  path: '/tool-calls/{id}/contents',
  access: 'admin',
  tag: 'Tool calls',
  resource: 'tool_call_contents',
  summary: 'Get the arguments and result of a tool call',
  description:
    'Returns the arguments and result if the organization stored contents when the call was made and they haven’t expired. Otherwise the response is a 404. Each text is truncated after 16,384 characters, so it may be incomplete JSON.',
  params: Id,
  response: z
    .strictObject({
      id: z.string().describe('ID of the call'),
      arguments: z.string().describe('The arguments as JSON'),
      result: z.string().nullable().describe('The result as JSON; null if the call has no result'),
      expires_at: Timestamp.describe('When the contents are deleted'),
    })
    .meta({ id: 'ToolCallContents' }),
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
      arguments: '{"product_id":"ink-blue"}',
      result: '{"content":[{"type":"text","text":"Added"}],"isError":false}',
      expires_at: '2026-11-14T16:05:12.480Z',
    },
  },
})

const Settings = z
  .strictObject({
    contents_days: z
      .int()
      .min(0)
      .max(365)
      .describe('How many days to keep the arguments and results of tool calls. 0, the default, keeps none.'),
  })
  .meta({ id: 'ToolCallSettings' })

export const getToolCallSettings = operation({
  id: 'getToolCallSettings',
  method: 'get',
  path: '/tool-calls/settings',
  access: 'admin',
  tag: 'Tool calls',
  summary: 'Get the retention of tool call contents',
  description: 'Every tool call is recorded. This setting determines how long its arguments and result are kept.',
  response: Settings,
  errors: [],
  example: { response: { contents_days: 30 } },
})

export const updateToolCallSettings = operation({
  id: 'updateToolCallSettings',
  method: 'patch',
  path: '/tool-calls/settings',
  access: 'admin',
  tag: 'Tool calls',
  summary: 'Update the retention of tool call contents',
  description:
    'Arguments and results are often personal data, so tell your users before you store them. They’re stored only for users who are also end users of the organization, and deleted with the end user. A shorter period also applies to contents that are already stored; a longer one doesn’t. With 0, stored contents can no longer be read and are deleted within minutes.',
  body: Settings,
  response: Settings,
  errors: [],
  example: { request: { contents_days: 30 }, response: { contents_days: 30 } },
})
