import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startThread } from '../../../test/conversation-rows.ts'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { addEndUser, addSite } from '../../../test/usage-records.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { countMessage } from './threads.ts'

let app: TestService
let token = ''
let demo = ''
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('member@demo.test', 'demo')
  demo = await app.organization('demo')
})
afterAll(() => app.close())

const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const asDemo = <T>(work: (sql: Sql) => Promise<T>) => app.service.database.asOrg(demo, work)
const start = (endUserId: string | null = null, siteId: string | null = null) =>
  asDemo((sql) => startThread(sql, { endUserId, siteId }))
const read = async (path: string) => (await app.request('GET', path, { token })).body
const patch = async (id: string, body: unknown) => (await app.request('PATCH', `/threads/${id}`, { token, body })).body
const idsOf = ({ threads }: { threads: { id: string }[] }) => threads.map(({ id }) => id)

test('a new thread starts without messages, and each message updates its counts', async () => {
  const [endUser, site] = [await addEndUser(app, demo), await addSite(app, demo)]
  const id = await start(endUser, site)
  const fresh = await read(`/threads/${id}`)
  expect(fresh).toEqual({
    id,
    end_user_id: endUser,
    end_user_name: `${endUser}@example.com`,
    site_id: site,
    is_preview: false,
    title: null,
    status: 'regular',
    message_count: 0,
    total_tokens: 0,
    last_message_at: null,
    created_at: timestamp,
    updated_at: fresh.created_at,
  })
  const late = '2026-03-10T12:00:01.000Z'
  await asDemo((sql) => countMessage(sql, id, { tokens: 0, at: late }))
  await asDemo((sql) => countMessage(sql, id, { tokens: 120, at: '2026-03-10T12:00:00.000Z' }))
  expect(await read(`/threads/${id}`)).toEqual({
    ...fresh,
    message_count: 2,
    total_tokens: 120,
    last_message_at: late,
  })
})

test('the beginning of the first message is the title where contents are visible, until one is set', async () => {
  const id = await start()
  await asDemo((sql) => sql`update threads set first_words = 'Where is my order?' where id = ${id}`)
  const admin = await app.tokenFor('admin@demo.test', 'demo')
  const show = (are_contents_visible: boolean) =>
    app.request('PATCH', '/agent/config', { token: admin, body: { are_contents_visible } })
  expect((await read(`/threads/${id}`)).title).toBeNull()
  await show(true)
  expect((await read(`/threads/${id}`)).title).toBe('Where is my order?')
  await patch(id, { title: 'Order 7' })
  await show(false)
  expect((await read(`/threads/${id}`)).title).toBe('Order 7')
})

test('concurrent messages are all counted', async () => {
  const id = await start()
  const at = '2026-03-10T12:00:00.000Z'
  await Promise.all(Array.from({ length: 50 }, () => asDemo((sql) => countMessage(sql, id, { tokens: 2, at }))))
  expect(await read(`/threads/${id}`)).toMatchObject({ message_count: 50, total_tokens: 100 })
})

test('a thread cannot refer to another organization’s end user or site', async () => {
  const other = await app.organization('other')
  await expect(start(await addEndUser(app, other))).rejects.toMatchObject({ code: '23503' })
  const id = await start(null, await addSite(app, other))
  expect(await read(`/threads/${id}`), 'like a thread whose site was deleted').toMatchObject({ site_id: null })
})

test('a message cannot be counted in another organization’s thread', async () => {
  const id = await start()
  const message = { tokens: 1, at: '2026-03-10T12:00:00.000Z' }
  const counting = app.service.database.asOrg(await app.organization('other'), (sql) => countMessage(sql, id, message))
  await expect(counting).rejects.toMatchObject({ envelope: { status: 404 } })
  expect(await read(`/threads/${id}`)).toMatchObject({ message_count: 0 })
})

describe('lists', () => {
  let app: TestService
  let token = ''
  const ids: Record<string, string> = {}
  let endUser = ''
  beforeAll(async () => {
    app = await startTestService()
    token = await app.tokenFor('member@demo.test', 'demo')
    const demo = await app.organization('demo')
    endUser = await addEndUser(app, demo)
    const asDemo = <T>(work: (sql: Sql) => Promise<T>) => app.service.database.asOrg(demo, work)
    for (const [name, status, minute, owner] of [
      ['quiet', 'regular', null, endUser],
      ['old', 'regular', 1, endUser],
      ['new', 'regular', 3, null],
      ['archived', 'archived', 2, endUser],
      ['deleted', 'deleted', 4, endUser],
    ] as const) {
      const id = await asDemo((sql) => startThread(sql, { endUserId: owner, siteId: null }))
      ids[name] = id
      if (minute)
        await asDemo((sql) => countMessage(sql, id, { tokens: minute * 10, at: `2020-01-01T00:0${minute}:00.000Z` }))
      await app.request('PATCH', `/threads/${id}`, { token, body: { status } })
    }
    await app.service.database.asOrg(await app.organization('other'), async (sql) => {
      for (let n = 0; n < 50; n += 1) await startThread(sql, { endUserId: null, siteId: null })
    })
  })
  afterAll(() => app.close())
  const read = async (path: string) => (await app.request('GET', path, { token })).body
  const named = (...names: string[]) => names.map((name) => ids[name])

  test.each([
    ['without deleted threads by default', '', ['quiet', 'new', 'archived', 'old'], 4],
    ['regular threads', '?status=regular', ['quiet', 'new', 'old'], 3],
    ['archived threads', '?status=archived', ['archived'], 1],
    ['deleted threads', '?status=deleted', ['deleted'], 1],
    ['a page', '?limit=2&offset=1', ['new', 'archived'], 4],
    ['nothing past the end', '?offset=9007199254740991', [], 4],
  ])('sort by latest activity: %s', async (_, query, names, total) => {
    const list = await read(`/threads${query}`)
    expect(idsOf(list)).toEqual(named(...names))
    expect(list.total).toBe(total)
  })

  test.each([
    ['', ['quiet', 'archived', 'old'], 3],
    ['?status=deleted', ['deleted'], 1],
    ['?limit=1&offset=2', ['old'], 3],
  ])('can be limited to an end user: %s', async (query, names, total) => {
    const list = await read(`/end-users/${endUser}/threads${query}`)
    expect(idsOf(list)).toEqual(named(...names))
    expect(list.total).toBe(total)
  })

  test('the default limit is 100 for an end user’s threads and 50 for the organization’s', async () => {
    const app = await useTestService()
    const token = await app.tokenFor('member@demo.test', 'demo')
    const demo = await app.organization('demo')
    const endUser = await addEndUser(app, demo)
    await app.service.database.asOrg(demo, async (sql) => {
      for (let n = 0; n < 101; n += 1) await startThread(sql, { endUserId: endUser, siteId: null })
    })
    const lengths = ['/threads', `/end-users/${endUser}/threads`].map(
      async (path) => (await app.request('GET', path, { token })).body.threads.length,
    )
    expect(await Promise.all(lengths)).toEqual([50, 100])
  })

  test.each(['/threads', '/end-users/ID/threads'])('%s rejects invalid parameters', async (path) => {
    for (const [query, field] of [
      ['limit=0', 'limit'],
      ['limit=101', 'limit'],
      ['limit=1.5', 'limit'],
      ['offset=-1', 'offset'],
      ['offset=9007199254740992', 'offset'],
      ['status=open', 'status'],
      ['status=', 'status'],
      ['end_user_id=x', 'end_user_id'],
    ]) {
      const { data } = await read(`${path.replace('ID', endUser)}?${query}`)
      expect(data, query).toEqual({ code: 'VALIDATION_ERROR', field, details: expect.stringMatching(/\S/) })
    }
  })

  test('analytics exclude deleted threads', async () => {
    expect(await read('/threads/analytics')).toEqual({
      total_threads: 4,
      total_messages: 3,
      total_tokens: 60,
      active_threads: 3,
      archived_threads: 1,
    })
  })

  test('analytics are zero without threads', async () => {
    const app = await useTestService()
    const token = await app.tokenFor('member@demo.test', 'demo')
    expect((await app.request('GET', '/threads/analytics', { token })).body).toEqual({
      total_threads: 0,
      total_messages: 0,
      total_tokens: 0,
      active_threads: 0,
      archived_threads: 0,
    })
  })
})

describe('updating', () => {
  test.each([
    ['the title', { title: '  Invoices ' }, { title: 'Invoices' }],
    ['the title to one character', { title: 'x' }, { title: 'x' }],
    ['the title to 200 characters', { title: 'x'.repeat(200) }, { title: 'x'.repeat(200) }],
    ['the status', { status: 'archived' }, { status: 'archived' }],
    ['both', { title: 'Both', status: 'deleted' }, { title: 'Both', status: 'deleted' }],
    ['nothing', {}, {}],
  ])('changes %s and nothing else', async (_, changes, expected) => {
    const id = await start()
    const before = await read(`/threads/${id}`)
    const after = await patch(id, changes)
    expect(after).toEqual({ ...before, ...expected, updated_at: timestamp })
    expect(await read(`/threads/${id}`)).toEqual(after)
  })

  test('a deleted thread can be restored', async () => {
    const id = await start()
    await patch(id, { status: 'deleted' })
    expect(await patch(id, { status: 'regular' })).toMatchObject({ id, status: 'regular' })
  })

  test.each([
    { title: '' },
    { title: '  ' },
    { title: 'x'.repeat(201) },
    { title: 1 },
    { title: null },
    { status: 'open' },
    { status: null },
    { message_count: 1 },
    { end_user_id: newId() },
  ])('rejects %j', async (body) => {
    const id = await start()
    const before = await read(`/threads/${id}`)
    const { data } = await patch(id, body)
    expect(data).toEqual({
      code: 'VALIDATION_ERROR',
      field: Object.keys(body)[0],
      details: expect.stringMatching(/\S/),
    })
    expect(await read(`/threads/${id}`)).toEqual(before)
  })

  test('writes an audit event with the actor', async () => {
    const id = await start()
    await patch(id, { title: 'Named', status: 'archived' })
    const rows = await asDemo((sql) => sql`select actor, action, data from audit_events where target = ${id}`)
    expect(rows).toEqual([
      { actor: 'member@demo.test', action: 'thread.updated', data: { title: 'Named', status: 'archived' } },
    ])
  })
})

test('erasing an end user deletes their threads and no others', async () => {
  const endUser = await addEndUser(app, demo)
  const gone = await start(endUser)
  const kept = await start()
  const admin = await app.tokenFor('admin@demo.test', 'demo')
  expect((await app.request('DELETE', `/end-users/${endUser}`, { token: admin })).status).toBe(200)
  expect((await app.request('GET', `/threads/${gone}`, { token })).status).toBe(404)
  expect((await app.request('GET', `/threads/${kept}`, { token })).status).toBe(200)
})

test('totals equal a count of the rows, whatever happens to threads at the same time', async () => {
  const app = await useTestService()
  const token = await app.tokenFor('member@demo.test', 'demo')
  const demo = await app.organization('demo')
  const asDemo = <T>(work: (sql: Sql) => Promise<T>) => app.service.database.asOrg(demo, work)
  const change = fc.constantFrom('start', 'message', 'archive', 'restore', 'hide', 'delete', 'undo')
  const known: string[] = []
  const apply = async (name: string, at: number) => {
    const id = known[at % Math.max(1, known.length)] ?? ''
    if (name === 'start') known.push(await asDemo((sql) => startThread(sql, { endUserId: null, siteId: null })))
    else if (name === 'message')
      await asDemo(
        (sql) => sql`
        update threads set message_count = message_count + 1, total_tokens = total_tokens + ${at} where id = ${id || null}`,
      )
    else if (name === 'delete') await asDemo((sql) => sql`delete from threads where id = ${id || null}`)
    else if (name === 'undo')
      await asDemo(async (sql) => {
        await sql`update threads set status = 'deleted'`
        throw new Error('undone')
      }).catch(() => undefined)
    else {
      const status = { archive: 'archived', restore: 'regular', hide: 'deleted' }[name]
      await asDemo((sql) => sql`update threads set status = ${status} where id = ${id || null}`)
    }
  }
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(change, fc.nat(500)), { minLength: 20, maxLength: 60 }), async (changes) => {
      await Promise.all(changes.map(([name, at]) => apply(name, at)))
      const [counted] = await asDemo(
        (sql) => sql`
        select count(*) as total_threads, coalesce(sum(message_count), 0) as total_messages,
               coalesce(sum(total_tokens), 0) as total_tokens,
               count(*) filter (where status = 'regular') as active_threads,
               count(*) filter (where status = 'archived') as archived_threads
        from threads where status <> 'deleted'`,
      )
      expect((await app.request('GET', '/threads/analytics', { token })).body).toEqual(counted)
    }),
    { numRuns: 20 },
  )
})

test('the rows of a total are added up as they grow', async () => {
  const app = await useTestService()
  const [kept] = await app.service.database.asOrg(await app.organization('demo'), async (sql) => {
    for (let n = 0; n < 2_000; n += 1) await startThread(sql, { endUserId: null, siteId: null })
    return sql`select sum(items) as items, count(*) < 1500 as is_added_up from list_totals where list = 'threads/regular'`
  })
  expect(kept).toEqual({ items: 2000, is_added_up: true })
})
