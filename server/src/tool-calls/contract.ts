import { z } from 'zod'
import { operation } from '../foundation/operation.ts'
import { Id, moment, Timestamp } from '../foundation/shapes.ts'
import { isId } from '../lib/ids.ts'

const Outcome = z.enum(['succeeded', 'tool_error', 'failed', 'refused', 'cancelled', 'timed_out'])

export const ToolCallRecord = z
  .strictObject({
    id: z.string().describe('The call’s id, which the page and the governance provider get too'),
    at: Timestamp.describe('When the call started'),
    user_id: z.string().describe('ID of the user who called the tool'),
    user_email: z.string().describe('Email address of that user at the time of the call'),
    client_id: z.string().nullable().describe('The OAuth client; null for tokens that weren’t issued to one'),
    client_name: z.string().nullable().describe('Name of that client at the time of the call; null if it has none'),
    source_type: z.enum(['page', 'connector']).nullable().describe('Null if no such tool was found'),
    source: z.string().nullable().describe('The origin of the page, or the name of the connector'),
    tool: z.string().describe('Name of the tool; tools of connectors are named `<connector>.<tool>`'),
    definition_hash: z
      .string()
      .nullable()
      .describe('SHA-256 of the definition that the page gave; null for tools of connectors'),
    arguments_hash: z
      .string()
      .describe('An HMAC-SHA-256 with a key of the server. The same arguments have the same hash in an organization.'),
    approval: z
      .enum(['not_needed', 'allowed', 'always_allowed', 'declined', 'unknown'])
      .describe(
        'What the user said to the call, as their browser reports it. `not_needed`: they weren’t asked. `allowed`, `declined`: they were asked. `always_allowed`: they had allowed this tool before, in this definition. `unknown`: the call ended before they answered, or before it reached them.',
      ),
    approval_at: Timestamp.nullable().describe('When the user allowed or declined this call; null if they didn’t'),
    governance: z
      .enum(['none', 'allowed', 'refused', 'result_refused'])
      .describe('`refused` before the tool ran, `result_refused` after it; `none` if no provider was asked'),
    outcome: Outcome.describe(
      'How the call ended. `tool_error`: the tool ran and reported an error. `failed`: there was no result.',
    ),
    failure_code: z.string().nullable().describe('Why there is no result; null if the tool returned one'),
    duration_ms: z.int().describe('Time from the call to its end, in milliseconds'),
  })
  .meta({ id: 'ToolCall' })

export const listToolCalls = operation({
  id: 'listToolCalls',
  method: 'get',
  path: '/tool-calls',
  access: 'admin',
  tag: 'Tool calls',
  summary: 'Tool calls through the hub, the newest first',
  description:
    'Calls on other nodes of the server appear a few seconds after they end. A page can have fewer calls than `limit`, or none, while `next_cursor` isn’t null: a search that finds little is continued with the next request. With `format`, the response is one page as CSV or as JSON Lines, and the header `Next-Cursor` has the cursor of the next page.',
  query: z.strictObject({
    limit: z.int().min(1).max(1_000).default(50).describe('Maximum number of calls in a page'),
    cursor: z
      .string()
      .regex(/^\d{1,13}_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'The next_cursor of a page is expected')
      .optional()
      .describe('The `next_cursor` of the page before'),
    user_id: z.string().refine(isId, 'The id of a user is expected').optional().describe('Only calls of this user'),
    tool: z.string().min(1).max(128).optional().describe('Only calls of the tool with this name'),
    outcome: Outcome.optional().describe('Only calls that ended like this'),
    start_date: moment('00:00:00.000').describe('Only calls from this date or time on'),
    end_date: moment('23:59:59.999').describe('Only calls up to this date, inclusive, or time'),
    format: z.enum(['json', 'csv', 'jsonl']).default('json').describe('Format of the response'),
  }),
  response: z.strictObject({
    tool_calls: z.array(ToolCallRecord).describe('The calls, the newest first'),
    next_cursor: z.string().nullable().describe('For the next page; null on the last one'),
  }),
  rows: 'tool_calls',
  errors: [],
})

export const getToolCallContents = operation({
  id: 'getToolCallContents',
  method: 'get',
  path: '/tool-calls/{id}/contents',
  access: 'admin',
  tag: 'Tool calls',
  resource: 'tool_call_contents',
  summary: 'Get the arguments and the result of a tool call',
  description:
    'Returns them if the organization kept contents when the call was made, and they haven’t expired. Otherwise the response is a 404. Each text is cut after 16,384 characters, so it may not be complete JSON.',
  params: Id,
  response: z
    .strictObject({
      id: z.string().describe('ID of the call'),
      arguments: z.string().describe('The arguments as JSON'),
      result: z.string().nullable().describe('The result as JSON; null if the call has none'),
      expires_at: Timestamp.describe('When the contents are deleted'),
    })
    .meta({ id: 'ToolCallContents' }),
  errors: ['RESOURCE_NOT_FOUND'],
})

const Settings = z
  .strictObject({
    contents_days: z
      .int()
      .min(0)
      .max(365)
      .describe('For how many days arguments and results of tool calls are kept; 0 keeps none, which is the default'),
  })
  .meta({ id: 'ToolCallSettings' })

export const getToolCallSettings = operation({
  id: 'getToolCallSettings',
  method: 'get',
  path: '/tool-calls/settings',
  access: 'admin',
  tag: 'Tool calls',
  summary: 'Get what is kept of tool calls',
  description: 'Every call leaves a record. This setting is about its arguments and its result.',
  response: Settings,
  errors: [],
})

export const updateToolCallSettings = operation({
  id: 'updateToolCallSettings',
  method: 'patch',
  path: '/tool-calls/settings',
  access: 'admin',
  tag: 'Tool calls',
  summary: 'Change what is kept of tool calls',
  description:
    'Arguments and results are often personal data, so tell your users before you keep them. They are kept for users who are end users of the organization too, and deleted with the end user. A smaller number of days also applies to contents that are already stored; a larger one doesn’t. With 0, stored contents can’t be read any more, and are deleted within minutes.',
  body: Settings,
  response: Settings,
  errors: [],
})
