import { z } from 'zod'
import { operation } from '../operation.ts'
import { Id, Page, Timestamp } from '../shapes.ts'

const ThreadStatus = z.enum(['regular', 'archived', 'deleted'])

const Thread = z
  .strictObject({
    id: z.string(),
    end_user_id: z.string().nullable().describe('Null for an anonymous visitor'),
    site_id: z.string().nullable(),
    title: z.string().nullable(),
    status: ThreadStatus,
    message_count: z.int(),
    total_tokens: z.int(),
    last_message_at: Timestamp.nullable(),
    created_at: Timestamp,
    updated_at: Timestamp,
  })
  .meta({ id: 'Thread' })

const ThreadList = z.strictObject({ threads: z.array(Thread), total: z.int() }).meta({ id: 'ThreadList' })

const status = { status: ThreadStatus.optional().describe('Without it, all but the deleted ones') }

const threads = { tag: 'Threads', resource: 'thread', access: 'org' } as const

export const listThreads = operation({
  ...threads,
  id: 'listThreads',
  method: 'get',
  path: '/threads',
  summary: 'The organization’s conversations, those with the latest activity first',
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
  summary: 'An end user’s conversations, those with the latest activity first',
  params: Id,
  query: Page.extend({ limit: Page.shape.limit.removeDefault().default(100), ...status }),
  response: ThreadList,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const getThreadAnalytics = operation({
  ...threads,
  id: 'getThreadAnalytics',
  method: 'get',
  path: '/threads/analytics',
  summary: 'How many conversations there are, and what they amount to; deleted ones are left out',
  response: z
    .strictObject({
      total_threads: z.int(),
      total_messages: z.int(),
      total_tokens: z.int(),
      active_threads: z.int().describe('Those with the status `regular`'),
      archived_threads: z.int(),
    })
    .meta({ id: 'ThreadAnalytics' }),
  errors: [],
})

export const getThread = operation({
  ...threads,
  id: 'getThread',
  method: 'get',
  path: '/threads/{id}',
  summary: 'One conversation, whatever its status',
  params: Id,
  response: Thread,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const updateThread = operation({
  ...threads,
  id: 'updateThread',
  method: 'patch',
  path: '/threads/{id}',
  summary: 'Rename, archive, delete or restore a conversation',
  params: Id,
  body: z.strictObject({
    title: z.string().trim().min(1).max(200).optional(),
    status: ThreadStatus.optional(),
  }),
  response: Thread,
  errors: ['RESOURCE_NOT_FOUND'],
})
