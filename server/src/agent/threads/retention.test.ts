import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { addExchange, addMessage, addRun, startThread } from '../../../test/conversation-rows.ts'
import { runJob, startTestService, type TestService } from '../../../test/harness.ts'
import { addEndUser, usageRecord } from '../../../test/usage-records.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { recordUsage } from '../../plans/usage/record.ts'
import { conversationErasure } from '../settings/settings.ts'
import { saveFeedback } from './feedback.ts'
import { countMessage } from './threads.ts'

let app: TestService
let demo: string
let token: string
beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())
beforeEach(() => asDemo((sql) => sql`delete from threads`))

const asDemo = <T>(work: (sql: Sql) => Promise<T>) => app.service.database.asOrg(demo, work)
const keepFor = (retention_days: number | null) =>
  app.request('PATCH', '/agent/config', { token, body: { retention_days } })
const erase = () => runJob(app, demo, conversationErasure)
const daysAgo = (days: number) => new Date(Date.now() - days * 24 * 60 * 60 * 1000).toISOString()

const start = (endUserId: string | null = null) => asDemo((sql) => startThread(sql, { endUserId, siteId: null }))

const contentTables = ['runs', 'messages', 'steps', 'model_calls', 'tool_calls'] as const

/** Everything that the organization still has of its conversations, by table. */
async function countRows(): Promise<Record<string, number>> {
  const [counts] = await asDemo(
    (sql) => sql<Record<string, number>>`
      select (select count(*) from runs) as runs, (select count(*) from messages) as messages,
             (select count(*) from steps) as steps, (select count(*) from model_calls) as model_calls,
             (select count(*) from tool_calls) as tool_calls`,
  )
  return counts as Record<string, number>
}
const each = (count: number) => Object.fromEntries(contentTables.map((name) => [name, count]))

const everything = { steps: [{ text: 'canary', calls: [{ args: { canary: 1 }, result: 'canary' }] }], modelCalls: [{}] }
const addFull = (threadId: string, at: string) =>
  asDemo((sql) => addExchange(sql, threadId, { text: 'canary', at }, { ...everything, at }))

test('conversations older than the organization keeps them are erased; the thread, its counts and usage stay', async () => {
  const endUser = await addEndUser(app, demo)
  const id = await start(endUser)
  const { runId } = await addFull(id, daysAgo(31))
  const recent = await addFull(id, daysAgo(29))
  await asDemo(async (sql) => {
    await sql`
      update threads set title = 'canary', summary = 'canary', summary_position = 2, origins = '{https://a.example.com}'
      where id = ${id}`
    await countMessage(sql, id, { tokens: 120, at: daysAgo(31) })
    await saveFeedback(sql, { runId, endUserId: endUser, visitor: null, rating: 'down', comment: 'canary' })
    await sql`update feedback set updated_at = ${daysAgo(31)}`
    const later = { runId: recent.runId, endUserId: endUser, visitor: null, rating: 'up', comment: 'kept' } as const
    await saveFeedback(sql, later)
  })
  await recordUsage(app.service, usageRecord(demo, { end_user_id: endUser, thread_id: id }))
  const read = async (path: string) => (await app.request('GET', path, { token })).body
  const [thread, usage] = [await read(`/threads/${id}`), await read(`/usage/end-users/${endUser}/stats`)]

  await keepFor(30)
  await erase()
  expect(await countRows()).toEqual(each(1))
  expect(await read(`/threads/${id}`)).toEqual({ ...thread, title: null })
  expect(await read(`/usage/end-users/${endUser}/stats`)).toEqual(usage)
  expect((await read(`/threads/${id}/messages`)).messages).toMatchObject([
    { id: recent.messageId, role: 'user' },
    { id: recent.runId, role: 'assistant' },
  ])
  const kept = await asDemo(
    (sql) => sql`select rating, comment, summary, summary_position, last_position, origins
      from feedback join threads on threads.id = thread_id order by rating`,
  )
  const shared = { summary: null, summary_position: 0, last_position: 4, origins: ['https://a.example.com'] }
  expect(kept).toEqual([
    { rating: 'down', comment: null, ...shared },
    { rating: 'up', comment: 'kept', ...shared },
  ])
})

test('nothing is erased without a limit, or before it', async () => {
  const id = await start()
  await asDemo((sql) => sql`update threads set title = 'kept' where id = ${id}`)
  await addFull(id, daysAgo(3649))
  await keepFor(null)
  await erase()
  expect(await countRows()).toEqual(each(1))
  await keepFor(3650)
  await erase()
  expect(await countRows()).toEqual(each(1))
  expect((await app.request('GET', `/threads/${id}`, { token })).body.title).toBe('kept')
})

test('an organization’s limit does not apply to another', async () => {
  const other = await app.organization('other')
  await app.service.database.asOrg(other, async (sql) => {
    const id = await startThread(sql, { endUserId: null, siteId: null })
    await addExchange(sql, id, { at: daysAgo(100) }, { at: daysAgo(100) })
  })
  await keepFor(1)
  await erase()
  const rows = await app.service.database.asOrg(other, (sql) => sql`select from runs`)
  expect(rows).toHaveLength(1)
})

test('deleted threads and replaced messages are erased like all others, and unanswered messages too', async () => {
  const id = await start()
  await asDemo(async (sql) => {
    await addExchange(sql, id, { at: daysAgo(2), replacedAt: daysAgo(2) }, { at: daysAgo(2), replacedAt: daysAgo(2) })
    await addMessage(sql, id, { at: daysAgo(2) })
    await sql`update threads set status = 'deleted', title = 'canary' where id = ${id}`
  })
  await keepFor(1)
  await erase()
  expect(await countRows()).toEqual(each(0))
  expect((await app.request('GET', `/threads/${id}`, { token })).body).toMatchObject({ title: null, status: 'deleted' })
})

test('runs in progress are kept, and those that wait are kept while the user can answer', async () => {
  const asking = (expires_at: string) => ({
    status: 'waiting' as const,
    at: daysAgo(2),
    steps: [{ calls: [{ state: 'asking' as const, expires_at }] }],
  })
  const [running, answerable, expired] = [await start(), await start(), await start()]
  await asDemo(async (sql) => {
    await addExchange(sql, running, { at: daysAgo(2) }, { status: 'running' })
    await addRun(sql, answerable, asking(daysAgo(-1)))
    await addRun(sql, expired, asking(daysAgo(1)))
  })
  await keepFor(1)
  await erase()
  const left = await asDemo((sql) => sql<{ thread_id: string }>`select thread_id from runs`)
  expect(new Set(left.map(({ thread_id }) => thread_id))).toEqual(new Set([running, answerable]))
})

test('a long run is kept until it ended long enough ago', async () => {
  const id = await start()
  await asDemo((sql) => addExchange(sql, id, { at: daysAgo(9) }, { at: daysAgo(9), endedAt: daysAgo(1.9) }))
  await keepFor(2)
  await erase()
  expect(await countRows()).toMatchObject({ runs: 1, messages: 1 })
})

test('more rows than fit into one batch are erased', async () => {
  const ids = [await start(), await start()]
  await asDemo(async (sql) => {
    for (const id of ids)
      await sql`
        insert into runs (organization_id, id, thread_id, position, status, holder, created_at, ended_at)
        select current_organization(), gen_random_uuid(), ${id}, n, 'succeeded', '{}', ${daysAgo(9)}, ${daysAgo(9)}
        from generate_series(1, 600) n`
  })
  await keepFor(1)
  await erase()
  expect(await countRows()).toEqual(each(0))
})

test('a thread in use is skipped and erased the next time', async () => {
  const id = await start()
  await addFull(id, daysAgo(9))
  await keepFor(1)
  await asDemo(async (sql) => {
    await sql`select from threads where id = ${id} for update`
    await erase()
    const rows = await sql`select from runs`
    expect(rows).toHaveLength(1)
  })
  await erase()
  expect(await countRows()).toEqual(each(0))
})

test('erasing an end user erases their conversations and feedback, even with a run in progress', async () => {
  const [endUser, another] = [await addEndUser(app, demo), await addEndUser(app, demo)]
  const [id, kept] = [await start(endUser), await start(another)]
  const { runId } = await addFull(id, daysAgo(9))
  await addFull(kept, daysAgo(9))
  await asDemo(async (sql) => {
    await saveFeedback(sql, { runId, endUserId: endUser, visitor: null, rating: 'down', comment: 'canary' })
    await addMessage(sql, id)
    await addRun(sql, id, { status: 'running' })
    await sql`
      insert into runs (organization_id, id, thread_id, position, status, holder)
      select current_organization(), gen_random_uuid(), ${id}, n, 'stopped', '{}' from generate_series(10, 1500) n`
  })
  await keepFor(null)
  expect((await app.request('DELETE', `/end-users/${endUser}`, { token })).status).toBe(200)
  expect(await countRows()).toEqual(each(1))
  expect(await asDemo((sql) => sql`select from feedback`)).toEqual([])
  expect(await asDemo((sql) => sql<{ id: string }>`select id from threads`)).toEqual([{ id: kept }])
})
