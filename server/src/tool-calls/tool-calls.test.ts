import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../test/harness.ts'
import { answerWith, startInterceptor } from '../../test/interceptor.ts'
import { obtain, register } from '../../test/oauth-client.ts'
import { offer, type Page, pageOrigin } from '../../test/page.ts'
import { member, type Shop, startShop, useShop } from '../../test/shop.ts'
import { createAccess, type OrgCaller } from '../access.ts'
import { verifyAuditChain } from '../audit/verify.ts'
import { failure, serviceUnavailable } from '../errors.ts'
import { newId } from '../lib/ids.ts'
import { resources } from '../oauth/access-tokens.ts'
import { createService } from '../service.ts'
import type { Database } from '../stores/database.ts'
import { createToolCallRecorder, type ToolCallRecord, type ToolCallRecorder } from './recorder.ts'
import { verifyToolCalls } from './verify.ts'

let shop: Shop
let page: Page
let me: Awaited<ReturnType<Shop['caller']>>
beforeAll(async () => {
  shop = await startShop()
  me = await shop.caller('member@demo.test')
})
afterAll(() => shop.close())
afterEach(() => shop.closePages())

type App = Pick<Shop, 'service' | 'request' | 'fetch' | 'tokenFor'>

const get = async (app: App, query = '') => {
  await app.service.toolCalls.flush()
  return app.request('GET', `/tool-calls${query}`, { token: await app.tokenFor('admin@demo.test', 'demo') })
}
const list = async (app: App, query = ''): Promise<ToolCallRecord[]> => (await get(app, query)).body.tool_calls

/** The record of the latest call. */
const latest = async (app: App = shop) => (await list(app, '?limit=1'))[0]

const openPage = async (app: Shop = shop) => {
  page = await app.page(member)
  await offer(page, 'add')
  return page
}

/** A caller as the hub sees one, without a page. */
function callerOf(organizationId: string): OrgCaller {
  return {
    user: { id: newId(), email: 'ann@example.com', name: 'Ann', avatar_url: '' },
    email_verified: true,
    token: { id: 't', expires_at: 0, organization_id: organizationId, grant_id: undefined, client_id: undefined },
    organization: { id: organizationId, name: 'Some', slug: 'some' },
    role: 'member',
  }
}

/** Records calls that no page is needed for. */
const follow = (recorder: ToolCallRecorder, caller: OrgCaller, tool_name: string, args = {}, error?: Error) =>
  recorder
    .follow(caller, { tool_name, args }, async (record) => {
      if (error) throw error
      record.outcome = 'succeeded'
    })
    .catch(() => undefined)

describe('the record of a call', () => {
  test('says who called what through which client, and how it ended', async () => {
    await openPage()
    const answered = me.call('add', { sku: 7 })
    const { call_id, definition_hash } = await page.next('tool/call')
    page.send({ type: 'tool/result', call_id, result: 'done' })
    await answered
    expect(await latest()).toEqual({
      id: call_id,
      at: new Date(shop.clock.now).toISOString(),
      user_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      user_email: 'member@demo.test',
      client_id: null,
      source_type: 'page',
      source: pageOrigin,
      tool: 'add',
      definition_hash,
      arguments_hash: expect.stringMatching(/^[\w-]{43}$/),
      approval: 'unknown',
      governance: 'none',
      outcome: 'succeeded',
      failure_code: null,
      duration_ms: expect.any(Number),
    })
  })

  test('names the OAuth client that the token was issued to', async () => {
    const config = await register(shop.url)
    const { access_token } = await obtain(config, 'member@demo.test', { resource: resources(shop.url).mcp })
    const access = createAccess(shop.service)
    const caller = (await access.check(`Bearer ${access_token}`, 'org', resources(shop.url).mcp)) as OrgCaller
    await follow(shop.service.toolCalls, caller, 'by-client')
    expect(await latest()).toMatchObject({ tool: 'by-client', client_id: config.clientMetadata().client_id })
  })

  const fail = (code: 'failed' | 'declined') => async (call: Promise<unknown>) => {
    const { call_id } = await page.next('tool/call')
    page.send({ type: 'tool/result', call_id, error: { code, message: 'no' } })
    await call
  }
  test.each<[string, (call: Promise<unknown>, stop: AbortController) => Promise<void>, Partial<ToolCallRecord>]>([
    ['whose tool failed', fail('failed'), { outcome: 'tool_error', failure_code: null, approval: 'unknown' }],
    [
      'that the user declined',
      fail('declined'),
      { outcome: 'refused', failure_code: 'DECLINED', approval: 'declined', governance: 'none' },
    ],
    [
      'that was cancelled',
      async (_, stop) => {
        await page.next('tool/call')
        stop.abort()
      },
      { outcome: 'cancelled', failure_code: 'CALL_CANCELLED' },
    ],
    [
      'that nobody answered',
      async () => {
        await page.next('tool/call')
        // The page is alive all the time.
        for (let n = 0; n < 3; n += 1) {
          shop.pass(20_000)
          await page.settled()
        }
      },
      { outcome: 'timed_out', failure_code: 'CALL_TIMED_OUT' },
    ],
    [
      'whose page left',
      async () => {
        await page.next('tool/call')
        page.socket.close(1000)
      },
      { outcome: 'failed', failure_code: 'SOURCE_GONE' },
    ],
  ])('%s says so', async (_, end, expected) => {
    await openPage()
    const stop = new AbortController()
    const call = me.call('add', {}, { signal: stop.signal })
    const ended = call.catch(() => undefined)
    await end(call, stop)
    await ended
    expect(await latest()).toMatchObject({ tool: 'add', source: pageOrigin, ...expected })
  })

  test('of a tool that nobody offers has no source, and no hidden characters in its name', async () => {
    await me.call('no\u202ewhere').catch(() => undefined)
    expect(await latest()).toMatchObject({
      tool: 'nowhere',
      source_type: null,
      source: null,
      definition_hash: null,
      outcome: 'failed',
      failure_code: 'RESOURCE_NOT_FOUND',
    })
  })

  test('of a call that failed here names no cause', async () => {
    const caller = callerOf(await shop.organization('demo'))
    await follow(shop.service.toolCalls, caller, 'broken', {}, new Error('a secret'))
    expect(await latest()).toMatchObject({ tool: 'broken', outcome: 'failed', failure_code: 'INTERNAL_ERROR' })
  })

  test.each<[string, { request: string; response: string }, Partial<ToolCallRecord>]>([
    ['allowed', { request: 'success', response: 'success' }, { outcome: 'succeeded', failure_code: null }],
    ['refused', { request: 'failure', response: 'success' }, { outcome: 'refused', failure_code: 'CALL_REFUSED' }],
    [
      'result_refused',
      { request: 'success', response: 'failure' },
      { outcome: 'refused', failure_code: 'CALL_REFUSED' },
    ],
  ])('has the verdict of the governance provider: %s', async (governance, verdicts, expected) => {
    const interceptor = await startInterceptor(({ params, ...request }, response) =>
      answerWith({ status: verdicts[params.phase as 'request'], violations: [] })({ params, ...request }, response),
    )
    const governed = await useShop()
    const token = await governed.tokenFor('admin@demo.test', 'demo')
    const body = {
      interceptor_url: interceptor.url,
      interceptor_name: 'policy',
      api_key: 'key-of-the-policy',
      is_enabled: true,
    }
    expect((await governed.request('PATCH', '/governance/providers/config', { token, body })).status).toBe(200)
    ;(await openPage(governed)).answer(() => 'done')
    await (await governed.caller('member@demo.test')).call('add').catch(() => undefined)
    const record = await latest(governed)
    expect(record).toMatchObject({ governance, ...expected })
    expect(interceptor.asked[0]?.body.params).toMatchObject({ context: { mcp_call_id: record?.id } })
  })

  test('has no contents, only a keyed hash of the arguments, which differs between organizations', async () => {
    const [demo, other] = [await shop.organization('demo'), await shop.organization('other')]
    const { toolCalls, database } = shop.service
    await follow(toolCalls, callerOf(demo), 'hash', { item: 'tea', count: { b: 1, a: 2 } })
    await follow(toolCalls, callerOf(demo), 'hash', { count: { a: 2, b: 1 }, item: 'tea' })
    await follow(toolCalls, callerOf(demo), 'hash', { count: { a: 2, b: 1 }, item: 'tee' })
    await follow(toolCalls, callerOf(other), 'hash', { count: { a: 2, b: 1 }, item: 'tea' })
    await toolCalls.flush()
    const stored = (id: string) =>
      database.asOrg(id, (sql) => sql<ToolCallRecord>`select * from tool_calls where tool = 'hash' order by id`)
    const [one, same, different] = await stored(demo)
    const [elsewhere] = await stored(other)
    expect(same?.arguments_hash).toBe(one?.arguments_hash)
    expect(different?.arguments_hash).not.toBe(one?.arguments_hash)
    expect(elsewhere?.arguments_hash).not.toBe(one?.arguments_hash)
    expect(JSON.stringify(await stored(demo))).not.toMatch(/tea|tee/)
  })
})

describe('the list', () => {
  let app: Awaited<ReturnType<typeof startShop>>
  let [ann, bob]: [OrgCaller, OrgCaller] = [callerOf(''), callerOf('')]
  beforeAll(async () => {
    app = await startShop()
    const demo = await app.organization('demo')
    ;[ann, bob] = [callerOf(demo), callerOf(demo)]
    app.clock.now = Date.parse('2026-03-01T12:00:00.000Z')
    for (let n = 0; n < 60; n += 1) {
      // Three at the same moment.
      if (n % 3 === 0) app.clock.now += 60 * 60 * 1000
      const error = n % 4 === 0 ? failure(504, 'CALL_TIMED_OUT', 'Too late') : undefined
      await follow(app.service.toolCalls, n % 2 ? ann : bob, n % 3 ? 'add' : '=remove("x")', { n }, error)
    }
    await follow(app.service.toolCalls, callerOf(await app.organization('other')), 'theirs')
    app.clock.now = Date.now()
  })
  afterAll(() => app.close())

  test.each([1, 7, 60, 1_000])(
    'in pages of %i has every record of the organization once, the newest first',
    async (limit) => {
      const seen: ToolCallRecord[] = []
      for (let cursor: string | null = ''; cursor !== null; ) {
        const { body } = await get(app, `?limit=${limit}${cursor && `&cursor=${cursor}`}`)
        expect(body.tool_calls.length).toBeLessThanOrEqual(limit)
        seen.push(...body.tool_calls)
        cursor = body.next_cursor
      }
      expect(seen).toHaveLength(60)
      expect(seen.map(({ id }) => id)).toEqual([...new Set(seen.map(({ id }) => id))].toSorted().toReversed())
    },
  )

  test.each<[string, (record: ToolCallRecord) => boolean, number]>([
    ['user_id=ANN', ({ user_id }) => user_id === ann.user.id, 30],
    ['tool=add', ({ tool }) => tool === 'add', 40],
    ['tool=ad', () => false, 0],
    ['outcome=timed_out', ({ outcome }) => outcome === 'timed_out', 15],
    ['outcome=cancelled', () => false, 0],
    ['user_id=ANN&tool=add&outcome=succeeded', ({ user_id }) => user_id === ann.user.id, 20],
    ['start_date=2026-03-02', ({ at }) => at >= '2026-03-02T00:00', 27],
    ['end_date=2026-03-01', ({ at }) => at < '2026-03-02T00:00', 33],
    ['start_date=2026-03-01T13:00:00Z&end_date=2026-03-01T13:00:00Z', ({ at }) => at.startsWith('2026-03-01T13'), 3],
  ])('narrows by %s', async (query, fits, count) => {
    const records = await list(app, `?limit=1000&${query.replace('ANN', ann.user.id)}`)
    expect(records.every(fits)).toBe(true)
    expect(records).toHaveLength(count)
  })

  test.each([
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['cursor=', 'cursor'],
    ['cursor=5', 'cursor'],
    [`cursor=12345678901234_${newId()}`, 'cursor'],
    ['user_id=ann', 'user_id'],
    ['tool=', 'tool'],
    ['outcome=lost', 'outcome'],
    ['start_date=yesterday', 'start_date'],
    ['format=xml', 'format'],
  ])('refuses "%s"', async (query, field) => {
    expect((await get(app, `?${query}`)).body.data).toMatchObject({ code: 'VALIDATION_ERROR', field })
  })

  const getText = async (query: string) => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const response = await app.fetch(`/api/tool-calls?${query}`, { headers: { authorization: `Bearer ${token}` } })
    expect(response.status).toBe(200)
    expect(response.headers.get('cache-control')).toBe('no-store')
    return { text: await response.text(), type: response.headers.get('content-type'), headers: response.headers }
  }

  test('as JSON Lines has a record per line, and the next page in a header', async () => {
    const { body } = await get(app, '?limit=3')
    const { text, type, headers } = await getText('limit=3&format=jsonl')
    expect(type).toBe('application/jsonl; charset=utf-8')
    expect(text).toBe(body.tool_calls.map((record: ToolCallRecord) => `${JSON.stringify(record)}\n`).join(''))
    expect(headers.get('next-cursor')).toBe(body.next_cursor)
    expect((await getText('limit=60&format=jsonl')).headers.get('next-cursor')).toBeNull()
  })

  test('as CSV has a header, quotes what needs it, and starts no formula', async () => {
    const [record] = await list(app, '?limit=1&tool=%3Dremove(%22x%22)')
    const { text, type } = await getText('limit=1&tool=%3Dremove(%22x%22)&format=csv')
    expect(type).toBe('text/csv; charset=utf-8; header=present')
    const cells = Object.values(record as ToolCallRecord).map((value) =>
      value === '=remove("x")' ? `"'=remove(""x"")"` : String(value ?? ''),
    )
    // A hash is base64url, so it may start with a minus sign.
    const lines = [Object.keys(record as ToolCallRecord), cells].map((line) => `${line.join(',')}\r\n`)
    expect(text.replaceAll(",'-", ',-')).toBe(lines.join(''))
    expect((await getText('tool=nothing&format=csv')).text, 'the header alone').toBe(lines[0])
  })
})

describe('the recorder', () => {
  const batches = async (app: Pick<Shop, 'service'>, organizationId: string) =>
    app.service.database.asOrg(
      organizationId,
      (sql) => sql<{ actor: string; target: string; data: Record<string, unknown> }>`
        select actor, target, data from audit_events where action = 'tool_calls.recorded' order by sequence`,
    )

  /** A recorder of its own over a database whose transactions go wrong in some way. */
  async function useRecorder(
    asOrg?: (real: Database['asOrg']) => Database['asOrg'],
    limits?: { organization: number; node: number },
  ) {
    const app = await useTestService()
    const { database } = app.service
    const broken = { ...database, ...(asOrg && { asOrg: asOrg(database.asOrg) }) }
    const recorder = createToolCallRecorder({ ...app.service, database: broken }, limits)
    const organizationId = await app.organization('demo')
    const report = () => verifyToolCalls(app.stores, organizationId)
    return { app, recorder, organizationId, caller: callerOf(organizationId), report }
  }

  test('writes one audit event for many calls, which carries their hash', async () => {
    const { app, recorder, organizationId, caller, report } = await useRecorder()
    await Promise.all(Array.from({ length: 1_500 }, (_, n) => follow(recorder, caller, 'add', { n })))
    await recorder.close()
    const events = await batches(app, organizationId)
    expect(events.map(({ actor, data }) => [actor, data.count])).toEqual([
      ['hub', 1_000],
      ['hub', 500],
    ])
    expect(events[0]?.data).toEqual({
      count: 1_000,
      first_id: expect.any(String),
      last_id: expect.any(String),
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    expect(await report()).toEqual({ batches: 2, records: 1_500 })
    expect(await verifyAuditChain(app.stores, organizationId)).not.toHaveProperty('broken')
  })

  test('keeps what it could not write, and writes it once the database is back', async () => {
    let isAway = true
    const away: Database['asOrg'] = () => Promise.reject(serviceUnavailable('The database is not reachable'))
    const { recorder, caller, report } = await useRecorder((real) => (id, work) => (isAway ? away : real)(id, work))
    await follow(recorder, caller, 'one')
    await recorder.flush()
    await follow(recorder, caller, 'two')
    await recorder.flush()
    expect(await report()).toEqual({ batches: 0, records: 0 })
    isAway = false
    await recorder.close()
    expect(await report()).toEqual({ batches: 2, records: 2 })
  })

  test('writes a batch once, also if the response to its commit was lost', async () => {
    let failures = 1
    const { recorder, caller, report } = await useRecorder((real) => async (id, work) => {
      const result = await real(id, work)
      failures -= 1
      if (failures === 0) throw serviceUnavailable('The database is not reachable')
      return result
    })
    await follow(recorder, caller, 'one')
    await recorder.flush()
    await follow(recorder, caller, 'two')
    await recorder.close()
    expect(await report()).toEqual({ batches: 2, records: 2 })
  })

  test('keeps a bounded number of records, and the next event says how many are missing', async () => {
    const { app, recorder, organizationId, caller } = await useRecorder(undefined, { organization: 5, node: 8 })
    const other = await app.organization('other')
    for (let n = 0; n < 7; n += 1) await follow(recorder, caller, 'add')
    for (let n = 0; n < 7; n += 1) await follow(recorder, callerOf(other), 'add')
    await recorder.close()
    const data = async (id: string) => (await batches(app, id)).map(({ data }) => [data.count, data.lost])
    expect(await data(organizationId)).toEqual([[5, 2]])
    expect(await data(other)).toEqual([[3, 4]])
  })

  test('gives up a batch that can never be written, and counts it as missing', async () => {
    let failures = 1
    const { app, recorder, organizationId, caller } = await useRecorder((real) => async (id, work) => {
      failures -= 1
      if (failures === 0) throw new Error('This will never work')
      return real(id, work)
    })
    await follow(recorder, caller, 'one')
    await follow(recorder, caller, 'two')
    await recorder.flush()
    await follow(recorder, caller, 'three')
    await recorder.close()
    expect(app.logged()).toContain('This will never work')
    expect((await batches(app, organizationId)).map(({ data }) => data)).toMatchObject([{ count: 1, lost: 2 }])
  })

  test('writes what is left when the service stops', async () => {
    const { stores, service, organization } = await useTestService()
    const organizationId = await organization('demo')
    const stopping = await createService(stores, service)
    const call = { signal: new AbortController().signal, progress: () => undefined }
    const called = stopping.hub.callTool(callerOf(organizationId), { tool_name: 'nothing', args: {} }, call)
    await expect(called).rejects.toThrow()
    await stopping.close()
    expect(await verifyToolCalls(stores, organizationId)).toEqual({ batches: 1, records: 1 })
  })
})

describe('the verification', () => {
  const edits: Record<string, string> = {
    id: 'gen_random_uuid()',
    batch_id: 'gen_random_uuid()',
    at: `at + interval '1 ms'`,
    user_id: 'gen_random_uuid()',
    user_email: `'mallory@example.com'`,
    client_id: `'another'`,
    source_type: `'connector'`,
    source: `'https://evil.example'`,
    tool: `'another'`,
    definition_hash: `'another'`,
    arguments_hash: `'another'`,
    approval: `'declined'`,
    governance: `'allowed'`,
    outcome: `'failed'`,
    failure_code: `'ANOTHER'`,
    duration_ms: 'duration_ms + 1',
  }
  const columns = Object.keys(edits)
  const copied = columns.map((column) => (column === 'id' ? `'00000000-0000-7000-8000-000000000000'` : column))

  let app: TestService
  let owner: pg.Client
  beforeAll(async () => {
    app = await startTestService()
    owner = new pg.Client(app.stores.owner)
    await owner.connect()
    await owner.query('alter table tool_calls no force row level security')
  })
  afterAll(async () => {
    await owner.end()
    await app.close()
  })

  test.each([
    ...Object.entries(edits).map(([column, value]) => [
      `its ${column} was changed`,
      `update tool_calls set ${column} = ${value} where tool = 'two' and organization_id = $1`,
    ]),
    ['it was deleted', `delete from tool_calls where tool = 'two' and organization_id = $1`],
    ['all were deleted', 'delete from tool_calls where organization_id = $1'],
    [
      'it was added',
      `insert into tool_calls (organization_id, ${columns.join(', ')})
       select organization_id, ${copied.join(', ')} from tool_calls where tool = 'two' and organization_id = $1`,
    ],
  ])('finds a record if %s', async (_, statement) => {
    const { database, toolCalls } = app.service
    const id = newId()
    await database.asOrg(id, (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`)
    for (const tool of ['one', 'two', 'three']) await follow(toolCalls, callerOf(id), tool)
    await toolCalls.flush()
    expect(await verifyToolCalls(app.stores, id)).toEqual({ batches: 1, records: 3 })
    expect((await owner.query(statement, [id])).rowCount).toBeGreaterThan(0)
    expect(await verifyToolCalls(app.stores, id)).toHaveProperty('broken')
  })

  test('covers every column', async () => {
    const { rows } = await owner.query(
      `select attname from pg_attribute where attrelid = 'tool_calls'::regclass and attnum > 0 and not attisdropped`,
    )
    expect(rows.map(({ attname }) => attname).toSorted()).toEqual(['organization_id', ...columns].toSorted())
  })
})
