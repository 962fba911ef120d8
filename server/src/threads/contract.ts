import { z } from 'zod'
import { operation } from '../foundation/operation.ts'
import { Id, Page, Timestamp } from '../foundation/shapes.ts'

const ThreadStatus = z.enum(['regular', 'archived', 'deleted'])

const Thread = z
  .strictObject({
    id: z.string().describe('ID of the thread'),
    end_user_id: z.string().nullable().describe('ID of the end user; null for an anonymous visitor'),
    site_id: z
      .string()
      .nullable()
      .describe('ID of the site where the thread started; null if it didn’t start on a site'),
    title: z.string().nullable().describe('Title; null until one is set'),
    status: ThreadStatus.describe('`regular`, `archived`, or `deleted`'),
    message_count: z.int().describe('Number of messages'),
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
    total: z.int().describe('Total number of matching threads'),
  })
  .meta({ id: 'ThreadList' })

const status = {
  status: ThreadStatus.optional().describe('Return only threads with this status. Default: all except deleted ones.'),
}

const threads = { tag: 'Threads', resource: 'thread', access: 'org' } as const

export const listThreads = operation({
  ...threads,
  id: 'listThreads',
  method: 'get',
  path: '/threads',
  summary: 'List threads',
  description:
    'A thread is one conversation with the agent. Returns each thread’s metadata, without its messages. The most recently active threads come first.',
  query: Page.extend(status),
  response: ThreadList,
  errors: [],
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
    ...status,
  }),
  response: ThreadList,
  errors: ['RESOURCE_NOT_FOUND'],
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
})
