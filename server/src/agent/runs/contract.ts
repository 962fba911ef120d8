import { z } from 'zod'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Page, Timestamp } from '../../kernel/foundation/shapes.ts'
import { AgentToolCall } from '../threads/contract.ts'

const ModelCall = z
  .strictObject({
    id: z.string().describe('ID of the model call, and of its usage event'),
    purpose: z
      .enum(['step', 'summary'])
      .describe(
        '`step`: the agent’s next text and tool calls. `summary`: the beginning of a long thread made shorter.',
      ),
    model: z.string().describe('Name of the model'),
    prompt_tokens: z.int().nullable().describe('Tokens that the model read; null until the call has ended'),
    completion_tokens: z.int().nullable().describe('Tokens that the model wrote; null until the call has ended'),
    is_estimated: z
      .boolean()
      .nullable()
      .describe('Whether the tokens are estimated because the provider reported none; null until the call has ended'),
    cost_micro_usd: z
      .int()
      .nullable()
      .describe('Cost in millionths of a US dollar; null until the call has ended, and if the model has no price'),
    finish_reason: z
      .string()
      .nullable()
      .describe('Why the call ended, such as `stop`, `tool-calls`, `length` or `error`; null until it has'),
    started_at: Timestamp.describe('When the request was sent'),
    ended_at: Timestamp.nullable().describe('When the call ended; null if it hasn’t'),
  })
  .meta({ id: 'RunModelCall' })

const ToolCall = AgentToolCall.extend({
  verdict: z
    .enum(['run', 'ask', 'refuse'])
    .nullable()
    .describe('Whether the agent was allowed to run the call, had to ask the user, or was refused; null before that'),
  reason: z
    .string()
    .nullable()
    .describe('Why the user was asked, or why the call was refused or cancelled; null if it ran without asking'),
  is_late: z.boolean().describe('Whether the result arrived after the agent had continued without it'),
  asked_at: Timestamp.nullable().describe('When the user was asked; null if they weren’t'),
  decided_at: Timestamp.nullable().describe('When the user decided; null if they didn’t'),
}).meta({ id: 'RunToolCall' })

const Step = z
  .strictObject({
    step: z.int().describe('Number of the step in its run. Steps that failed and were repeated leave gaps.'),
    finish_reason: z.string().nullable().describe('Why the model stopped; null if it hasn’t, or failed'),
    model_calls: z.array(ModelCall).describe('Requests to models, in order. More than one if a request was repeated.'),
    tool_calls: z.array(ToolCall).describe('Tools that the model asked for, in order'),
  })
  .meta({ id: 'RunStep' })

const Run = z
  .strictObject({
    id: z.string().describe('ID of the run, and of the agent’s message'),
    status: z
      .enum(['running', 'waiting', 'succeeded', 'failed', 'stopped'])
      .describe('`waiting`: for the user. `stopped`: by the user.'),
    error_code: z.string().nullable().describe('Why the run failed, such as `MODEL_FAILED`; null if it didn’t'),
    error_message: z.string().nullable().describe('What the user was told when the run failed; null if it didn’t'),
    worked_ms: z.int().describe('Time that the agent worked, in milliseconds, without waiting for the user'),
    created_at: Timestamp.describe('When the run began'),
    ended_at: Timestamp.nullable().describe('When the run ended; null if it hasn’t'),
    replaced_at: Timestamp.nullable().describe('When its message was edited or regenerated; null if it wasn’t'),
    steps: z.array(Step).describe('Steps of the run, in order'),
  })
  .meta({ id: 'Run' })

export const listThreadRuns = operation({
  tag: 'Threads',
  resource: 'thread',
  access: 'admin',
  id: 'listThreadRuns',
  method: 'get',
  path: '/threads/{id}/runs',
  summary: 'List the runs of a thread',
  description:
    'A run is the agent’s work on one of its messages. Returns what happened in each run, oldest first: model calls with their tokens, cost and time, and tool calls with the decisions about them. Contents aren’t included; `GET /threads/{id}/messages` has them where they’re visible. Runs whose message was edited or regenerated are left out, unless you ask for them.',
  params: Id,
  query: z.strictObject({
    limit: Page.shape.limit.describe('Maximum number of runs to return'),
    cursor: z
      .string()
      .regex(/^\d{1,9}$/, 'Must be the next_cursor of a page')
      .optional()
      .describe('The `next_cursor` of the previous page, or of a page of the thread’s messages'),
    include_replaced: z
      .enum(['true', 'false'])
      .default('false')
      .describe('Whether to include runs whose message was edited or regenerated'),
  }),
  response: z
    .strictObject({
      runs: z.array(Run).describe('Runs on this page of the list'),
      next_cursor: z.string().nullable().describe('Cursor of the next page; null on the last page'),
    })
    .meta({ id: 'RunList' }),
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      runs: [
        {
          id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1012',
          status: 'succeeded',
          error_code: null,
          error_message: null,
          worked_ms: 3390,
          created_at: '2026-11-14T16:05:12.510Z',
          ended_at: '2026-11-14T16:05:15.900Z',
          replaced_at: null,
          steps: [
            {
              step: 0,
              finish_reason: 'tool-calls',
              model_calls: [
                {
                  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1014',
                  purpose: 'step',
                  model: 'gpt-5-mini',
                  prompt_tokens: 1520,
                  completion_tokens: 310,
                  is_estimated: false,
                  cost_micro_usd: 1240,
                  finish_reason: 'tool-calls',
                  started_at: '2026-11-14T16:05:12.520Z',
                  ended_at: '2026-11-14T16:05:13.690Z',
                },
              ],
              tool_calls: [
                {
                  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1013',
                  name: 'crm.search',
                  source_type: 'connector',
                  source: 'crm',
                  verdict: 'run',
                  reason: null,
                  decision: 'not_needed',
                  governance: 'allowed',
                  state: 'succeeded',
                  is_edited: false,
                  is_late: false,
                  asked_at: null,
                  decided_at: null,
                  started_at: '2026-11-14T16:05:13.700Z',
                  ended_at: '2026-11-14T16:05:14.120Z',
                },
              ],
            },
          ],
        },
      ],
      next_cursor: null,
    },
  },
})
