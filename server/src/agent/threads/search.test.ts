import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addExchange, startThread } from '../../../test/conversation-rows.ts'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { listThreads } from '../../channels/chat/own-threads.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { type ThreadPosition, top } from './list-query.ts'
import { inTurn, searchThreads } from './search.ts'
import { countMessage } from './threads.ts'

let app: TestService
let demo: string
let token: string
const names = new Map<string, string>()

beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
  token = await app.tokenFor('member@demo.test', 'demo')
  const replaced = { replacedAt: '2026-03-10T12:00:00.000Z' }
  await add('pen', { title: 'Refund of a fountain pen' }, 'I want my money back', 'Your order is A-1042.')
  await add('ink', { title: 'Ink (50% off) a.b_c\\d' }, 'Ÿ Die blaue TINTE läuft AUS', 'Öffnen Sie die Flasche')
  await add('archived', { title: 'REFUND of paper', status: 'archived' }, 'money', 'Done')
  await add('deleted', { title: 'refund', status: 'deleted' }, 'money', 'Done')
  await add('untitled', {}, 'インクの色を変えたい', '黒か青です')
  await asDemo(async (sql) => {
    const id = await startThread(sql, { endUserId: null, siteId: null })
    names.set(id, 'edited')
    await addExchange(sql, id, { text: 'secretly replaced', ...replaced }, { ...replaced, steps: [{ text: 'gone' }] })
  })
  const other = await app.organization('other')
  await app.service.database.asOrg(other, async (sql) => {
    const id = await startThread(sql, { endUserId: null, siteId: null })
    await sql`update threads set title = 'Refund' where id = ${id}`
    await addExchange(sql, id, { text: 'money' })
  })
})
afterAll(() => app.close())

const asDemo = <T>(work: (sql: Sql) => Promise<T>) => app.service.database.asOrg(demo, work)

async function add(name: string, { title, status }: { title?: string; status?: string }, text: string, answer: string) {
  await asDemo(async (sql) => {
    const id = await startThread(sql, { endUserId: null, siteId: null })
    await sql`update threads set title = ${title ?? null}, status = ${status ?? 'regular'} where id = ${id}`
    await addExchange(sql, id, { text }, { steps: [{ text: answer }] })
    await countMessage(sql, id, { tokens: 0, at: `2026-03-10T12:00:0${names.size}.000Z` })
    names.set(id, name)
  })
}

const show = async (are_contents_visible: boolean) => {
  const admin = await app.tokenFor('admin@demo.test', 'demo')
  await app.request('PATCH', '/agent/config', { token: admin, body: { are_contents_visible } })
}
const search = async (words: string, more = '') => {
  const { body } = await app.request('GET', `/threads?search=${encodeURIComponent(words)}${more}`, { token })
  return { total: body.total, found: body.threads.map(({ id }: { id: string }) => names.get(id)) }
}
const searches = async () =>
  asDemo((sql) => sql`select actor, data from audit_events where action = 'thread.contents_searched'`)

describe('a search in titles', () => {
  beforeAll(() => show(false))

  test.each([
    ['refund', ['archived', 'pen']],
    ['ReFuNd', ['archived', 'pen']],
    ['pen fountain', ['pen']],
    ['fund', ['archived', 'pen']],
    ['refund money', []],
    ['money', []],
    ['TINTE', []],
    ['%', ['ink']],
    ['50%', ['ink']],
    ['(50%', ['ink']],
    ['a.b', ['ink']],
    ['axb', []],
    ['_', ['ink']],
    ['.*', []],
    ['\\d', ['ink']],
    ['[', []],
    ['^', []],
    ["' or true --", []],
  ])('for %j finds %j', async (words, found) => {
    expect(await search(words)).toEqual({ total: found.length, found })
  })

  test('respects the status', async () => {
    expect(await search('refund', '&status=archived')).toEqual({ total: 1, found: ['archived'] })
    expect(await search('refund', '&status=deleted')).toEqual({ total: 1, found: ['deleted'] })
  })

  test('is paginated', async () => {
    expect(await search('refund', '&limit=1')).toEqual({ total: 2, found: ['archived'] })
    expect(await search('refund', '&limit=1&offset=1')).toEqual({ total: 2, found: ['pen'] })
    expect(await search('refund', '&offset=9007199254740991')).toEqual({ total: 2, found: [] })
  })

  test('isn’t an audit event', async () => {
    const before = await searches()
    await search('refund')
    expect(await searches()).toEqual(before)
  })

  test.each(['', '%20', 'x'.repeat(201)])('rejects %j', async (words) => {
    const { body } = await app.request('GET', `/threads?search=${words}`, { token })
    expect(body.data).toMatchObject({ code: 'VALIDATION_ERROR', field: 'search' })
  })
})

describe('a search in messages, where contents are visible', () => {
  beforeAll(() => show(true))

  test.each([
    ['money', ['archived', 'pen']],
    ['Money WANT', ['pen']],
    ['a-1042', ['pen']],
    ['money a-1042', []],
    ['tinte', ['ink']],
    ['ÄUFT', ['ink']],
    ['ÿ', ['ink']],
    ['öffnen', ['ink']],
    ['の色', ['untitled']],
    ['青', ['untitled']],
    ['refund', ['archived', 'pen']],
    ['secretly', []],
    ['gone', []],
  ])('for %j finds %j', async (words, found) => {
    expect(await search(words)).toEqual({ total: found.length, found })
  })

  test('is an audit event without the words', async () => {
    const before = await searches()
    await search('money')
    expect((await searches()).slice(before.length)).toEqual([{ actor: 'member@demo.test', data: {} }])
  })
})

test('a search covers more threads than fit into one statement, in order', async () => {
  const other = await app.organization('other')
  await app.service.database.asOrg(
    other,
    (sql) => sql`
      insert into threads (organization_id, id, title, created_at)
      select current_organization(), gen_random_uuid(), case when n % 500 = 0 then 'Needle ' || n else 'Hay' end,
             timestamptz '2020-01-01' - n * interval '1 minute'
      from generate_series(1, 2100) n`,
  )
  const needles = [500, 1000, 1500, 2000].map((n) => `Needle ${n}`)
  const admin = await app.tokenFor('admin@other.test', 'other')
  const titles: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const path = `/threads?search=needle&limit=1${cursor && `&cursor=${cursor}`}`
    const { body, headers } = await app.request('GET', path, { token: admin })
    titles.push(...body.threads.map(({ title }: { title: string }) => title))
    cursor = headers.get('next-cursor')
  }
  expect(titles).toEqual(needles)

  // However little time there is, each request searches some threads, and the next one continues below them.
  const found: string[] = []
  let requests = 0
  for (let after: ThreadPosition | undefined = top; after; requests += 1) {
    const wanted: Parameters<typeof searchThreads>[2] = {
      statuses: ['regular'],
      withContents: false,
      after,
      withinMs: 0,
    }
    const some: Awaited<ReturnType<typeof searchThreads>> = await app.service.database.asOrg(other, (sql) =>
      searchThreads(sql, 'needle', wanted),
    )
    found.push(...some.found.map(({ id }) => id))
    after = some.end
  }
  expect(requests).toBe(5)
  expect(new Set(found).size).toBe(4)
})

test('a few searches run at a time, and too many are refused', async () => {
  const gate = Promise.withResolvers<void>()
  let running = 0
  const search = () =>
    inTurn('one', async () => {
      running += 1
      await gate.promise
    })
  const accepted = Array.from({ length: 102 }, search)
  expect(running).toBe(2)
  await expect(search()).rejects.toMatchObject({ envelope: { status: 503 } })
  gate.resolve()
  await Promise.all(accepted)
  expect(running).toBe(102)
})

test('searches of an organization’s users run one at a time, so that those of others don’t wait for them', async () => {
  const gate = Promise.withResolvers<void>()
  const started: string[] = []
  const asHolder = async ({ organization_id }: { organization_id: string }) => {
    started.push(organization_id)
    await gate.promise
    return { found: [] }
  }
  const search = (organization_id: string) => {
    const speaker = { holder: { organization_id, end_user: { id: randomUUID() } }, is_own_frame: false }
    return listThreads({ database: { asHolder } } as never, speaker as never, { query: 'words', offset: 0 } as never)
  }
  const searching = ['one', 'one', 'one', 'other'].map(search)
  expect(started).toEqual(['one', 'other'])
  gate.resolve()
  await Promise.all(searching)
})
