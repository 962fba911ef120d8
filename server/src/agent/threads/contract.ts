import { z } from 'zod'
import { cursorAt, order } from '../../kernel/foundation/cursors.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, moment, Page, Timestamp } from '../../kernel/foundation/shapes.ts'
import { variant } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'

const Governance = z
  .enum(['none', 'allowed', 'refused', 'result_refused'])
  .nullable()
  .describe(
    'Decision of the governance provider: `refused` before the tool ran, `result_refused` after it ran, `none` if there is no provider. Null until the call has ended, if it wasn’t made, and for tools that no provider is asked about.',
  )

const ThreadStatus = z.enum(['regular', 'archived', 'deleted'])

const Thread = z
  .strictObject({
    id: z.string().describe('ID of the thread'),
    end_user_id: z.string().nullable().describe('ID of the end user; null for an anonymous visitor'),
    end_user_name: z
      .string()
      .nullable()
      .describe('Email address of the end user, or their external ID if they have none; null for an anonymous visitor'),
    is_preview: z
      .boolean()
      .describe('Whether the end user is a member of your organization who tries the agent in the dashboard'),
    site_id: z
      .string()
      .nullable()
      .describe('ID of the site where the thread started; null if it didn’t start on a site'),
    title: z
      .string()
      .nullable()
      .describe(
        'Title. Until one is set, it’s the beginning of the first message where contents are visible, and null elsewhere.',
      ),
    status: ThreadStatus.describe('`regular`, `archived`, or `deleted`'),
    message_count: z.int().describe('Number of messages, including replaced and erased ones'),
    total_tokens: z.int().describe('Prompt and completion tokens of all messages'),
    last_message_at: Timestamp.nullable().describe(
      'When the last message was sent; null if the thread has no messages yet',
    ),
    created_at: Timestamp.describe('When the thread was started'),
    updated_at: Timestamp.describe('When the thread was last changed'),
  })
  .meta({ id: 'Thread' })

const ThreadList = z
  .strictObject({
    threads: z.array(Thread).describe('Threads on this page of the list'),
    total: z.int().describe('Total number of matching threads; in a search, of those that this request found'),
  })
  .meta({ id: 'ThreadList' })

const status = {
  status: ThreadStatus.optional().describe('Return only threads with this status. Default: all except deleted ones.'),
}

const cursor = cursorAt(order.time, order.id)

const threads = { tag: 'Threads', resource: 'thread', access: 'org' } as const

const exampleThread = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10f6',
  end_user_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5',
  end_user_name: 'ada@example.com',
  is_preview: true,
  site_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4',
  title: 'Where is my order?',
  status: 'regular',
  message_count: 6,
  total_tokens: 18_250,
  last_message_at: '2026-11-14T16:05:12.480Z',
  created_at: '2026-11-02T09:30:00.000Z',
  updated_at: '2026-11-14T16:05:12.480Z',
} as const

export const listThreads = operation({
  ...threads,
  id: 'listThreads',
  method: 'get',
  path: '/threads',
  summary: 'List threads',
  description:
    'A thread is one conversation with the agent. Returns each thread’s metadata, without its messages. The most recently active threads come first. With `search`, returns only threads with all of the words in their title or, if `are_contents_visible` is set in the agent’s settings, in one of their messages. A search in many threads ends after a moment: the page can then have fewer threads than `limit`, or none, and `Next-Cursor` continues with older threads. A search in messages is an audit event, `thread.contents_searched`.',
  query: Page.extend({
    cursor,
    ...status,
    search: z
      .string()
      .trim()
      .min(1)
      .max(200)
      .optional()
      .describe('Words to search for, 1 to 200 characters. Upper and lower case are the same.'),
  }),
  response: ThreadList,
  pages: true,
  errors: [],
  example: { response: { threads: [exampleThread], total: 1 } },
})

export const listEndUserThreads = operation({
  ...threads,
  resource: 'end_user',
  id: 'listEndUserThreads',
  method: 'get',
  path: '/end-users/{id}/threads',
  summary: 'List an end user’s threads',
  description:
    'Returns the metadata of each of the end user’s threads, without the messages. The most recently active threads come first. The response is a 404 if the end user doesn’t exist or has been erased.',
  params: Id,
  query: Page.extend({
    limit: Page.shape.limit.removeDefault().default(100).describe('Maximum number of threads to return'),
    cursor,
    ...status,
  }),
  response: ThreadList,
  pages: true,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: { threads: [exampleThread], total: 1 } },
})

export const getThreadAnalytics = operation({
  ...threads,
  id: 'getThreadAnalytics',
  method: 'get',
  path: '/threads/analytics',
  summary: 'Get thread totals',
  description: 'Returns totals for all of the organization’s threads, except deleted ones.',
  response: z
    .strictObject({
      total_threads: z.int().describe('Number of threads'),
      total_messages: z.int().describe('Number of messages in these threads'),
      total_tokens: z.int().describe('Prompt and completion tokens of all messages'),
      active_threads: z.int().describe('Number of threads with the status `regular`'),
      archived_threads: z.int().describe('Number of threads with the status `archived`'),
    })
    .meta({ id: 'ThreadAnalytics' }),
  errors: [],
  example: {
    response: { total_threads: 42, total_messages: 260, total_tokens: 18_250, active_threads: 40, archived_threads: 2 },
  },
})

export const getThread = operation({
  ...threads,
  id: 'getThread',
  method: 'get',
  path: '/threads/{id}',
  summary: 'Get a thread',
  description: 'Returns a thread, whatever its status, including `deleted`. The messages aren’t included.',
  params: Id,
  response: Thread,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleThread },
})

export const updateThread = operation({
  ...threads,
  id: 'updateThread',
  method: 'patch',
  path: '/threads/{id}',
  summary: 'Rename, archive, delete or restore a thread',
  description:
    'Fields that you leave out stay as they are. Set the status to `deleted` to hide the thread from lists, and to `regular` to restore it.',
  params: Id,
  body: z.strictObject({
    title: z.string().trim().min(1).max(200).optional().describe('New title, 1 to 200 characters'),
    status: ThreadStatus.optional().describe('New status'),
  }),
  response: Thread,
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    request: { title: 'Where is my order?', status: 'archived' },
    response: { ...exampleThread, status: 'archived' },
  },
})

const Rating = z.enum(['up', 'down'])
const visibleText = 'null if contents aren’t visible'

/** A tool call of the agent, without its contents. */
export const AgentToolCall = z.strictObject({
  id: z.string().describe('ID of the call'),
  name: z.string().describe('Name of the tool; a connector’s tools are named `<connector>.<tool>`'),
  source_type: z
    .enum(['page', 'connector', 'built_in', 'client'])
    .nullable()
    .describe('Who offered the tool; `client` is an AG-UI client. Null if there is no tool with this name.'),
  source: z
    .string()
    .nullable()
    .describe('Origin of the page or client, or name of the connector; null for built-in and unknown tools'),
  state: z
    .enum([
      'new',
      'asking',
      'approved',
      'running',
      'succeeded',
      'failed',
      'unknown',
      'refused',
      'declined',
      'cancelled',
    ])
    .describe(
      'How far the call is. `asking`: the user has to decide. `refused`: by a policy or the governance provider. `declined`: by the user. `unknown`: the call may or may not have happened, because the server that made it is gone.',
    ),
  decision: z
    .enum(['not_needed', 'allowed', 'always_allowed', 'declined'])
    .nullable()
    .describe('The user’s decision; null before it, and if the call was refused'),
  governance: Governance,
  is_edited: z.boolean().describe('Whether the user edited the arguments'),
  started_at: Timestamp.nullable().describe('When the tool was called; null if it wasn’t'),
  ended_at: Timestamp.nullable().describe('When the call ended; null if it hasn’t'),
})

const MessageToolCall = AgentToolCall.extend({
  args: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe(`Arguments of the call, as the user edited them; ${visibleText}`),
  result: z
    .string()
    .nullable()
    .describe(`Result of the call, at most 16 384 characters; null if it has none, and ${visibleText}`),
}).meta({ id: 'MessageToolCall' })

const Message = z
  .strictObject({
    id: z.string().describe('ID of the message'),
    role: z.enum(['user', 'assistant']).describe('Who wrote it: the user, or the agent'),
    created_at: Timestamp.describe('When the user sent it, or the agent began to write it'),
    replaced_at: Timestamp.nullable().describe('When it was edited or regenerated; null if it is part of the thread'),
    status: z
      .enum(['sent', 'queued', 'running', 'waiting', 'succeeded', 'failed', 'stopped'])
      .describe(
        'A user’s message is `sent`, or `queued` until the agent reads it. The agent is `running` or `waiting` for the user while it works on its message, which then is `succeeded`, `failed`, or `stopped` by the user.',
      ),
    error_code: z.string().nullable().describe('Why the message failed, such as `MODEL_FAILED`; null if it didn’t'),
    text: z.string().nullable().describe(`Text of the message; ${visibleText}`),
    tool_calls: z.array(MessageToolCall).describe('Tools that the agent called for this message, in order'),
    prompt_tokens: z
      .int()
      .nullable()
      .describe('Tokens that the model read for this message; null for a user’s message'),
    completion_tokens: z
      .int()
      .nullable()
      .describe('Tokens that the model wrote for this message; null for a user’s message'),
    cost_micro_usd: z
      .int()
      .nullable()
      .describe('Cost in millionths of a US dollar; null for a user’s message, and if the model has no price'),
    model: z.string().nullable().describe('Name of the last model that was called; null if none was'),
    feedback: z
      .strictObject({
        rating: Rating.describe('The user’s rating: `up` or `down`'),
        comment: z.string().nullable().describe(`The user’s comment; null if there is none, and ${visibleText}`),
        updated_at: Timestamp.describe('When the user last changed it'),
      })
      .nullable()
      .describe('The user’s feedback; null if there is none'),
  })
  .meta({ id: 'Message' })

const contentsText =
  'Contents are visible if `are_contents_visible` is set in the agent’s settings, and reading them is an audit event, `thread.contents_read`. You can always read your own previews, without an audit event.'

const exampleFeedback = { rating: 'up', comment: 'Quick!', updated_at: '2026-11-14T16:06:02.000Z' } as const

const exampleUserMessage = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1011',
  role: 'user',
  created_at: '2026-11-14T16:05:12.480Z',
  replaced_at: null,
  status: 'sent',
  error_code: null,
  text: 'Where is my order?',
  tool_calls: [],
  prompt_tokens: null,
  completion_tokens: null,
  cost_micro_usd: null,
  model: null,
  feedback: null,
} as const

const exampleToolCall = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1013',
  name: 'crm.search',
  source_type: 'connector',
  source: 'crm',
  state: 'succeeded',
  decision: 'not_needed',
  governance: 'allowed',
  args: { email: 'ada@example.com' },
  is_edited: false,
  result: '{"order":"A-1042","arrives":"Friday"}',
  started_at: '2026-11-14T16:05:13.700Z',
  ended_at: '2026-11-14T16:05:14.120Z',
} as const

const exampleAgentMessage = {
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1012',
  role: 'assistant',
  created_at: '2026-11-14T16:05:12.510Z',
  replaced_at: null,
  status: 'succeeded',
  error_code: null,
  text: 'It’s on its way and arrives on Friday.',
  tool_calls: [exampleToolCall],
  prompt_tokens: 1520,
  completion_tokens: 310,
  cost_micro_usd: 1240,
  model: 'gpt-5-mini',
  feedback: exampleFeedback,
} as const

export const listThreadMessages = operation({
  ...threads,
  id: 'listThreadMessages',
  method: 'get',
  path: '/threads/{id}/messages',
  summary: 'List the messages of a thread',
  description: `Returns the messages, oldest first. ${contentsText} Otherwise \`contents_visible\` is false, and the messages have no text, arguments, results or comments. Messages that were edited or regenerated are left out, unless you ask for them.`,
  params: Id,
  query: z.strictObject({
    limit: Page.shape.limit.describe('Maximum number of messages to return'),
    cursor: z
      .string()
      .regex(/^\d{1,9}$/, 'Must be the next_cursor of a page')
      .optional()
      .describe('The `next_cursor` of the previous page'),
    include_replaced: z
      .enum(['true', 'false'])
      .default('false')
      .describe('Whether to include messages that were edited or regenerated'),
  }),
  response: z
    .strictObject({
      messages: z.array(Message).describe('Messages on this page of the list'),
      contents_visible: z.boolean().describe('Whether the messages have their contents'),
      next_cursor: z.string().nullable().describe('Cursor of the next page; null on the last page'),
    })
    .meta({ id: 'MessageList' }),
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: { messages: [exampleUserMessage, exampleAgentMessage], contents_visible: true, next_cursor: null },
  },
})

export const contentErrors = {
  CONTENTS_NOT_VISIBLE: variant(
    403,
    'CONTENTS_NOT_VISIBLE',
    'Your organization doesn’t let its members read conversations. An administrator can allow it with PATCH /agent/config and {"are_contents_visible": true}',
  ),
}

export const exportThread = operation({
  ...threads,
  id: 'exportThread',
  method: 'get',
  path: '/threads/{id}/export',
  summary: 'Export a thread',
  description: `Returns the whole conversation as JSON, or as Markdown for people to read. Replaced messages are left out. ${contentsText} Otherwise the response is a 403 with \`CONTENTS_NOT_VISIBLE\`. The response is complete if it ends without a connection error.`,
  params: Id,
  query: z.strictObject({
    format: z.enum(['json', 'markdown']).default('json').describe('Format of the response'),
  }),
  response: z
    .strictObject({
      thread: Thread.describe('The thread'),
      messages: z.array(Message).describe('All messages, oldest first, with complete results'),
    })
    .meta({ id: 'ThreadExport' }),
  documents: ['text/markdown'],
  errors: ['RESOURCE_NOT_FOUND'],
  ownErrors: contentErrors,
  example: {
    response: {
      thread: {
        ...exampleThread,
        is_preview: false,
        message_count: 2,
        total_tokens: 1830,
        last_message_at: '2026-11-14T16:05:15.900Z',
        created_at: '2026-11-14T16:05:12.480Z',
      },
      messages: [exampleUserMessage, exampleAgentMessage],
    },
  },
})

const Feedback = z
  .strictObject({
    message_id: z.string().describe('ID of the agent’s message'),
    thread_id: z.string().describe('ID of the thread'),
    end_user_id: z.string().nullable().describe('ID of the end user; null for an anonymous visitor'),
    end_user_name: z
      .string()
      .nullable()
      .describe('Email address of the end user, or their external ID if they have none; null for an anonymous visitor'),
    is_preview: z
      .boolean()
      .describe('Whether the end user is a member of your organization who tries the agent in the dashboard'),
    rating: Rating.describe('`up` or `down`'),
    comment: z.string().nullable().describe(`The user’s comment; null if there is none, and ${visibleText}`),
    created_at: Timestamp.describe('When the user first rated the message'),
    updated_at: Timestamp.describe('When the user last changed the rating or the comment'),
    reviewed_at: Timestamp.nullable().describe('When an administrator reviewed it; null if nobody has'),
    reviewed_by: z
      .string()
      .nullable()
      .describe(
        'Email address of that administrator, or `service-account:` and the name of a service account; null if nobody has',
      ),
  })
  .meta({ id: 'Feedback' })

export const listFeedback = operation({
  tag: 'Feedback',
  access: 'admin',
  id: 'listFeedback',
  method: 'get',
  path: '/feedback',
  summary: 'List feedback',
  description:
    'Returns what users think of the agent’s messages, latest first. Ratings are always included. Comments are contents: they’re included if `are_contents_visible` is set in the agent’s settings, and reading them is an audit event, `feedback.comments_read`.',
  query: z.strictObject({
    limit: Page.shape.limit.describe('Maximum number of entries to return'),
    cursor: z
      .string()
      .regex(/^\d{1,13}_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'Must be the next_cursor of a page')
      .optional()
      .describe('The `next_cursor` of the previous page'),
    rating: Rating.optional().describe('Return only this rating'),
    since: moment('00:00:00.000').describe(
      'Return only feedback that was given or changed at or after this date or time',
    ),
    thread_id: z
      .string()
      .refine(isId, 'Must be the ID of a thread')
      .optional()
      .describe('Return only feedback in this thread'),
    reviewed: z
      .enum(['true', 'false'])
      .optional()
      .describe('Return only feedback that has, or hasn’t, been reviewed since the user last changed it'),
  }),
  response: z
    .strictObject({
      feedback: z.array(Feedback).describe('Feedback on this page of the list'),
      contents_visible: z.boolean().describe('Whether the entries have their comments'),
      next_cursor: z.string().nullable().describe('Cursor of the next page; null on the last page'),
    })
    .meta({ id: 'FeedbackList' }),
  errors: [],
  example: {
    response: {
      feedback: [
        {
          message_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1012',
          thread_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10f6',
          end_user_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5',
          end_user_name: 'ada@example.com',
          is_preview: false,
          rating: 'up',
          comment: 'Quick!',
          created_at: '2026-11-14T16:05:58.300Z',
          updated_at: '2026-11-14T16:06:02.000Z',
          reviewed_at: null,
          reviewed_by: null,
        },
      ],
      contents_visible: true,
      next_cursor: null,
    },
  },
})

export const updateFeedback = operation({
  tag: 'Feedback',
  resource: 'feedback',
  access: 'admin',
  id: 'updateFeedback',
  method: 'patch',
  path: '/feedback/{id}',
  summary: 'Mark feedback as reviewed or unreviewed',
  description:
    'The ID is the `message_id` of the feedback. If the user changes the rating or the comment later, the feedback is unreviewed again.',
  params: Id,
  body: z.strictObject({ reviewed: z.boolean().describe('Whether you have reviewed the feedback') }),
  response: Feedback.pick({ message_id: true, reviewed_at: true, reviewed_by: true }).meta({ id: 'FeedbackReview' }),
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    request: { reviewed: true },
    response: {
      message_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1012',
      reviewed_at: '2026-11-15T09:12:40.000Z',
      reviewed_by: 'admin@example.com',
    },
  },
})
