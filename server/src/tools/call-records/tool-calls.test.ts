import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { useTestService } from '../../../test/harness.ts'
import { answerWith, startInterceptor } from '../../../test/interceptor.ts'
import { obtain, register } from '../../../test/oauth-client.ts'
import { offer, type Page, pageOrigin } from '../../../test/page.ts'
import { member, type Shop, startShop, useShop } from '../../../test/shop.ts'
import { createAccess } from '../../accounts/access/access.ts'
import { builtInNames } from '../../api.ts'
import { createCapabilities } from '../../capabilities.ts'
import type { MemberCaller } from '../../kernel/foundation/caller.ts'
import { createService } from '../../kernel/foundation/service.ts'
import { memberAsToolUser } from '../../kernel/foundation/tool-user.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { failure, serviceUnavailable } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Database } from '../../kernel/stores/database.ts'
import { createContentsDays } from './contents.ts'
import { createToolCallRecorder, lostAction, type ToolCallRecorder } from './recorder.ts'
import type { ToolCallRecord } from './records.ts'

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

const get = async (app: App, query = '') =>
  app.request('GET', `/tool-calls${query}`, { token: await app.tokenFor('admin@demo.test', 'demo') })
const list = async (app: App, query = ''): Promise<ToolCallRecord[]> => (await get(app, query)).body.tool_calls

/** The record of the latest call. */
const latest = async (app: App = shop) => (await list(app, '?limit=1'))[0]

const openPage = async (app: Shop = shop) => {
  page = await app.page(member)
  await offer(page, 'add')
  return page
}

/** A caller without a page. */
function callerOf(organizationId: string): MemberCaller {
  const user = { id: newId(), email: 'ann@example.com', name: 'Ann', avatar_url: '' }
  return {
    id: user.id,
    actor: user.email,
    user,
    email_verified: true,
    token: { id: 't', expires_at: 0, organization_id: organizationId, grant_id: undefined, client_id: undefined },
    organization: { id: organizationId, name: 'Some', slug: 'some' },
    role: 'member',
  }
}

/** Records a call without a page. */
const follow = (recorder: ToolCallRecorder, caller: MemberCaller, tool_name: string, args = {}, error?: Error) =>
  recorder
    .follow(memberAsToolUser(caller), { tool_name, args }, async (record) => {
      if (error) throw error
      record.outcome = 'succeeded'
    })
    .catch(() => undefined)

describe('the record of a call', () => {
  test('contains the user, tool, client and outcome', async () => {
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
      client_name: null,
      source_type: 'page',
      source: pageOrigin,
      tool: 'add',
      definition_hash,
      arguments_hash: expect.stringMatching(/^[\w-]{43}$/),
      approval: 'unknown',
      approval_at: null,
      governance: 'none',
      outcome: 'succeeded',
      failure_code: null,
      duration_ms: expect.any(Number),
    })
  })

  test.each<[string, object, Partial<ToolCallRecord>]>([
    ['not_needed', { result: 1, approval: { how: 'not_needed' } }, { approval_at: null, outcome: 'succeeded' }],
    ['always_allowed', { result: 1, approval: { how: 'always_allowed' } }, { approval_at: null, outcome: 'succeeded' }],
    ['allowed', { result: 1, approval: { how: 'allowed', after_ms: 1500 } }, { outcome: 'succeeded' }],
    [
      'declined',
      { error: { code: 'declined', message: '' }, approval: { how: 'declined', after_ms: 1500 } },
      { outcome: 'refused', failure_code: 'DECLINED' },
    ],
  ])('contains the user’s decision: %s', async (approval, answer, expected) => {
    await openPage()
    const answered = me.call('add')
    const { call_id } = await page.next('tool/call')
    page.send({ type: 'tool/result', call_id, ...answer } as never)
    await answered
    const approval_at = new Date(shop.clock.now + 1500).toISOString()
    expect(await latest()).toMatchObject({ approval, approval_at, ...expected })
  })

  test('caps the time of the decision at the maximum duration of a call', async () => {
    await openPage()
    const answered = me.call('add')
    const { call_id } = await page.next('tool/call')
    page.send({ type: 'tool/result', call_id, result: 1, approval: { how: 'allowed', after_ms: 1e15 } })
    await answered
    expect(await latest()).toMatchObject({ approval_at: new Date(shop.clock.now + 600_000).toISOString() })
  })

  test('contains the OAuth client of the token', async () => {
    const config = await register(shop.url)
    const { access_token } = await obtain(config, 'member@demo.test', { resource: resources(shop.url).mcp })
    const access = createAccess(shop.service)
    const caller = (await access.check(
      `Bearer ${access_token}`,
      { access: 'org' },
      resources(shop.url).mcp,
    )) as MemberCaller
    await follow(shop.service.toolCalls, caller, 'by-client')
    const { client_id, client_name } = config.clientMetadata()
    expect(await latest()).toMatchObject({ tool: 'by-client', client_id, client_name })
  })

  const fail = (code: 'failed' | 'declined') => async (call: Promise<unknown>) => {
    const { call_id } = await page.next('tool/call')
    page.send({ type: 'tool/result', call_id, error: { code, message: 'no' } })
    await call
  }
  test.each<[string, (call: Promise<unknown>, stop: AbortController) => Promise<void>, Partial<ToolCallRecord>]>([
    ['a failed tool', fail('failed'), { outcome: 'tool_error', failure_code: null, approval: 'unknown' }],
    [
      'a declined call',
      fail('declined'),
      { outcome: 'refused', failure_code: 'DECLINED', approval: 'declined', governance: 'none' },
    ],
    [
      'a cancelled call',
      async (_, stop) => {
        await page.next('tool/call')
        stop.abort()
      },
      { outcome: 'cancelled', failure_code: 'CALL_CANCELLED' },
    ],
    [
      'a call without a response',
      async () => {
        await page.next('tool/call')
        // Keeps the page alive.
        for (let n = 0; n < 3; n += 1) {
          shop.pass(20_000)
          await page.settled()
        }
      },
      { outcome: 'timed_out', failure_code: 'CALL_TIMED_OUT' },
    ],
    [
      'a call whose page left',
      async () => {
        await page.next('tool/call')
        page.socket.close(1000)
      },
      { outcome: 'failed', failure_code: 'SOURCE_GONE' },
    ],
  ])('contains the outcome of %s', async (_, end, expected) => {
    await openPage()
    const stop = new AbortController()
    const call = me.call('add', {}, { signal: stop.signal })
    const ended = call.catch(() => undefined)
    await end(call, stop)
    await ended
    expect(await latest()).toMatchObject({ tool: 'add', source: pageOrigin, ...expected })
  })

  test('of an unknown tool has no source and no hidden characters in the tool’s name', async () => {
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

  test('doesn’t contain the cause of an internal error', async () => {
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
  ])('contains the governance provider’s decision: %s', async (governance, verdicts, expected) => {
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

  test('contains only a keyed hash of the arguments, which differs between organizations', async () => {
    const [demo, other] = [await shop.organization('demo'), await shop.organization('other')]
    const { toolCalls } = shop.service
    await follow(toolCalls, callerOf(demo), 'hash', { item: 'tea', count: { b: 1, a: 2 } })
    await follow(toolCalls, callerOf(demo), 'hash', { count: { a: 2, b: 1 }, item: 'tea' })
    await follow(toolCalls, callerOf(demo), 'hash', { count: { a: 2, b: 1 }, item: 'tee' })
    await follow(toolCalls, callerOf(other), 'hash', { count: { a: 2, b: 1 }, item: 'tea' })
    const token = await shop.tokenFor('admin@other.test', 'other')
    const [different, same, one] = await list(shop, '?tool=hash')
    const [elsewhere] = (await shop.request('GET', '/tool-calls?tool=hash', { token })).body.tool_calls
    expect(same?.arguments_hash).toBe(one?.arguments_hash)
    expect(different?.arguments_hash).not.toBe(one?.arguments_hash)
    expect(elsewhere?.arguments_hash).not.toBe(one?.arguments_hash)
    expect(JSON.stringify(await list(shop, '?tool=hash'))).not.toMatch(/tea|tee/)
  })
})

describe('the list', () => {
  let app: Awaited<ReturnType<typeof startShop>>
  let [ann, bob]: [MemberCaller, MemberCaller] = [callerOf(''), callerOf('')]
  beforeAll(async () => {
    app = await startShop()
    const demo = await app.organization('demo')
    ;[ann, bob] = [callerOf(demo), callerOf(demo)]
    app.clock.now = Date.parse('2026-03-01T12:00:00.000Z')
    for (let n = 0; n < 60; n += 1) {
      // Three calls have the same time.
      if (n % 3 === 0) app.clock.now += 60 * 60 * 1000
      const error = n % 4 === 0 ? failure(504, 'CALL_TIMED_OUT', 'Too late') : undefined
      await follow(app.service.toolCalls, n % 2 ? ann : bob, n % 3 ? 'add' : '=remove("x")', { n }, error)
    }
    await follow(app.service.toolCalls, callerOf(await app.organization('other')), 'theirs')
    app.clock.now = Date.now()
  })
  afterAll(() => app.close())

  test.each([1, 7, 60, 1_000])(
    'in pages of %i contains every record of the organization once, newest first',
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

  test('stays in order when several nodes write', async () => {
    const { service, clock, organization, ...rest } = await useTestService()
    const caller = callerOf(await organization('demo'))
    const start = clock.now
    for (let n = 0; n < 90; n += 1) {
      clock.now = start + ((n * 37) % 90) * 6_000
      await follow(service.toolCalls, caller, n === 13 ? 'rare' : 'add')
      if (n % 2 === 1) await service.toolCalls.flush()
    }
    const app = { ...rest, service }
    const read = async (query: string) => {
      const seen: ToolCallRecord[] = []
      for (let cursor: string | null = ''; cursor !== null; ) {
        const { body } = await get(app, `?${query}${cursor && `&cursor=${cursor}`}`)
        seen.push(...body.tool_calls)
        cursor = body.next_cursor
      }
      return seen
    }
    for (const limit of [1, 8, 1_000]) {
      const seen = (await read(`limit=${limit}`)).map(({ at }) => Date.parse(at) - start)
      expect(seen).toEqual(Array.from({ length: 90 }, (_, n) => (89 - n) * 6_000))
    }
    expect(await read('tool=rare&limit=1')).toHaveLength(1)
  })

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
  ])('filters by %s', async (query, fits, count) => {
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

  test('as JSON Lines has one record per line and the next cursor in a header', async () => {
    const { body } = await get(app, '?limit=3')
    const { text, type, headers } = await getText('limit=3&format=jsonl')
    expect(type).toBe('application/jsonl; charset=utf-8')
    expect(text).toBe(body.tool_calls.map((record: ToolCallRecord) => `${JSON.stringify(record)}\n`).join(''))
    expect(headers.get('next-cursor')).toBe(body.next_cursor)
    expect((await getText('limit=60&format=jsonl')).headers.get('next-cursor')).toBeNull()
  })

  test('as CSV has a header, quotes values and escapes formulas', async () => {
    const [record] = await list(app, '?limit=1&tool=%3Dremove(%22x%22)')
    const { text, type } = await getText('limit=1&tool=%3Dremove(%22x%22)&format=csv')
    expect(type).toBe('text/csv; charset=utf-8; header=present')
    const cells = Object.values(record as ToolCallRecord).map((value) =>
      value === '=remove("x")' ? `"'=remove(""x"")"` : String(value ?? ''),
    )
    // A hash is base64url, so it may start with a minus sign.
    const lines = [Object.keys(record as ToolCallRecord), cells].map((line) => `${line.join(',')}\r\n`)
    expect(text.replaceAll(",'-", ',-')).toBe(lines.join(''))
    expect((await getText('tool=nothing&format=csv')).text, 'only the header').toBe(lines[0])
  })
})

describe('the recent calls of a page’s end user', () => {
  /** Opens a page and returns the recent calls that it receives, if any. */
  const recentFor = async (app: Shop, ...who: Parameters<Shop['page']>) => {
    const opened = await app.page(...who)
    // Pages receive their recent calls one at a time, so the first page has received its own by now.
    await (await app.page(member)).next('calls/recent')
    return opened.unread('calls/recent')[0]?.calls.map(({ name }) => name)
  }

  test('are sent after ready, oldest first', async () => {
    const app = await useShop()
    const { call } = await app.caller('member@demo.test')
    const first = await openPage(app)
    expect(first.unread('calls/recent')).toEqual([])
    first.answer(() => 'done')
    await call('add')
    const startedAt = app.clock.now
    await call('add', {}, { source_id: first.ready.session })
    const reloaded = await app.page(member)
    const { calls } = await reloaded.next('calls/recent')
    expect(calls).toEqual([
      { call_id: expect.any(String), at: startedAt, name: 'add', outcome: 'succeeded' },
      { call_id: expect.any(String), at: startedAt, name: 'add', outcome: 'succeeded' },
    ])
    expect(calls[0]?.call_id.localeCompare(calls[1]?.call_id as string)).toBe(-1)
  })

  test('include only this user, organization and origin', async () => {
    const app = await useShop()
    const [demo, other] = [await app.organization('demo'), await app.organization('other')]
    const person = async (email: string) => {
      const [row] = await app.service.database.asService(
        (sql) => sql<{ id: string }>`select id from users where email = ${email}`,
      )
      return (organizationId: string): MemberCaller => {
        const caller = callerOf(organizationId)
        return { ...caller, user: { ...caller.user, id: row?.id as string, email } }
      }
    }
    const [mine, admins] = [await person('member@demo.test'), await person('admin@demo.test')]
    type Told = Partial<Pick<ToolCallRecord, 'source_type' | 'source' | 'approval'>>
    const record = (caller: MemberCaller, tool_name: string, told: Told = {}) =>
      app.service.toolCalls.follow(memberAsToolUser(caller), { tool_name, args: {} }, async (call) => {
        Object.assign(call, { source_type: 'page', source: pageOrigin, outcome: 'succeeded', ...told })
      })
    await record(mine(demo), 'mine')
    await record(admins(demo), 'the admin’s')
    await record(mine(other), 'in another organization')
    await record(mine(demo), 'elsewhere', { source: 'https://elsewhere.example' })
    await record(mine(demo), 'unasked', { source_type: 'connector', source: 'crm', approval: 'not_needed' })
    await record(mine(demo), 'asked', { source_type: 'connector', source: 'crm', approval: 'declined' })
    await record(mine(demo), 'unknown', { source_type: null, source: null })

    expect(await recentFor(app, member)).toEqual(['mine', 'asked'])
    expect(await recentFor(app, { sub: 'adm', email: 'admin@demo.test', email_verified: true })).toEqual([
      'the admin’s',
    ])
    expect(await recentFor(app, { sub: 'mem', email: 'member@demo.test', email_verified: false })).toBeUndefined()
    expect(await recentFor(app, { sub: 'else', email: 'else@demo.test', email_verified: true })).toBeUndefined()
    expect(await recentFor(app, undefined)).toBeUndefined()

    await app.service.database.asService(
      (sql) => sql`update users set email_verified = false where email = 'admin@demo.test'`,
    )
    expect(await recentFor(app, { sub: 'adm', email: 'admin@demo.test', email_verified: true })).toBeUndefined()
  })

  test('include the agent’s calls for this end user, with or without an email address', async () => {
    const app = await useShop()
    const organizationId = await app.organization('demo')
    const bob = { sub: 'bob' }
    const { userId } = await app.exchange(bob)
    const { userId: annId } = await app.exchange({ sub: 'ann', email: 'ann@example.com', email_verified: true })
    type Told = Partial<Pick<ToolCallRecord, 'source_type' | 'source' | 'approval'>>
    const record = (id: string, tool_name: string, told: Told = {}) => {
      const user = { ...memberAsToolUser(callerOf(organizationId)), id, email: '', member: undefined, endUserId: id }
      return app.service.toolCalls.follow(user, { tool_name, args: {} }, async (call) => {
        Object.assign(call, { source_type: 'page', source: pageOrigin, outcome: 'succeeded', ...told })
      })
    }
    await record(userId, 'for bob')
    await record(userId, 'at a connector', { source_type: 'connector', source: 'crm', approval: 'not_needed' })
    await record(userId, 'elsewhere', { source: 'https://elsewhere.example' })
    await record(annId, 'for ann')
    const opened = await app.page(bob)
    expect((await opened.next('calls/recent')).calls.map(({ name }) => name)).toEqual(['for bob', 'at a connector'])
  })

  test('include only the last fifty', async () => {
    const app = await useShop()
    const { call } = await app.caller('member@demo.test')
    ;(await openPage(app)).answer(() => 'done')
    for (let n = 0; n < 55; n += 1) await call('add')
    const { calls } = await (await app.page(member)).next('calls/recent')
    expect(calls).toHaveLength(50)
    const newest = (await list(app, '?limit=50')).map(({ id }) => id)
    expect(calls.map(({ call_id }) => call_id).toReversed()).toEqual(newest)
  })
})

describe('the recorder', () => {
  const lostCalls = (app: Pick<Shop, 'service'>, organizationId: string) =>
    app.service.database.asOrg(
      organizationId,
      (sql) => sql<{ actor: string; data: object }>`
        select actor, data from audit_events where action = ${lostAction} order by sequence`,
    )

  const countEvents = (app: Pick<Shop, 'service'>, organizationId: string) =>
    app.service.database.asOrg(organizationId, (sql) => sql`select count(*) from audit_events`)

  async function countRecords({ asOrg }: Pick<Database, 'asOrg'>, organizationId: string): Promise<number> {
    const [row] = await asOrg(organizationId, (sql) => sql<{ count: number }>`select count(*) from tool_call_records`)
    return row?.count ?? 0
  }

  /** Creates a recorder whose database transactions can be made to fail. */
  async function useRecorder(
    asOrg?: (real: Database['asOrg']) => Database['asOrg'],
    limits?: { organization: number; node: number },
  ) {
    const app = await useTestService()
    const { database } = app.service
    const broken = { ...database, ...(asOrg && { asOrg: asOrg(database.asOrg) }) }
    const recorder = createToolCallRecorder(
      { ...app.service, database: broken },
      createContentsDays(app.service),
      limits,
    )
    const organizationId = await app.organization('demo')
    const report = () => countRecords(app.stores.database, organizationId)
    return { app, recorder, organizationId, caller: callerOf(organizationId), report }
  }

  test('writes many calls in transactions of at most 1,000 rows, and no audit events', async () => {
    const sizes: number[] = []
    const { app, recorder, organizationId, caller, report } = await useRecorder((real) => async (id, work) => {
      const before = await report()
      await real(id, work)
      sizes.push((await report()) - before)
      return undefined as never
    })
    const before = await countEvents(app, organizationId)
    await Promise.all(Array.from({ length: 2_500 }, (_, n) => follow(recorder, caller, 'add', { n })))
    await recorder.close()
    expect(sizes).toEqual([1_000, 1_000, 500])
    expect(await countEvents(app, organizationId)).toEqual(before)
  })

  test('keeps records while the database is unreachable and writes them afterwards', async () => {
    let isAway = true
    const away: Database['asOrg'] = () => Promise.reject(serviceUnavailable('The database is not reachable'))
    const { recorder, caller, report } = await useRecorder((real) => (id, work) => (isAway ? away : real)(id, work))
    await follow(recorder, caller, 'one')
    await recorder.flush()
    await follow(recorder, caller, 'two')
    await recorder.flush()
    expect(await report()).toBe(0)
    isAway = false
    await recorder.close()
    expect(await report()).toBe(2)
  })

  test('writes a record once, even if the response to its commit is lost', async () => {
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
    expect(await report()).toBe(2)
  })

  test.each([
    ['organization', { organization: 5, node: 100 }],
    ['node', { organization: 100, node: 5 }],
  ])('refuses calls while unwritten records exceed the limit per %s', async (_, limits) => {
    let isAway = true
    const away: Database['asOrg'] = () => Promise.reject(serviceUnavailable('The database is not reachable'))
    const { recorder, caller, report } = await useRecorder(
      (real) => (id, work) => (isAway ? away : real)(id, work),
      limits,
    )
    let runs = 0
    const call = () =>
      recorder.follow(memberAsToolUser(caller), { tool_name: 'add', args: {} }, async () => {
        runs += 1
      })
    const results = await Promise.allSettled(Array.from({ length: 7 }, call))
    expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(2)
    await expect(call()).rejects.toMatchObject({ envelope: { status: 503 } })
    expect(runs).toBe(5)
    isAway = false
    await call()
    await recorder.close()
    expect(await report()).toBe(6)
  })

  test('drops a record that can’t be written without the others, and records that one was lost', async () => {
    const { app, recorder, organizationId, caller, report } = await useRecorder()
    for (let n = 0; n < 10; n += 1)
      await recorder.follow(memberAsToolUser(caller), { tool_name: `tool-${n}`, args: {} }, async (record) => {
        if (n === 6) record.source = 'not a text: \0'
      })
    await recorder.flush()
    expect(await report()).toBe(9)
    expect(app.logged()).toContain('A tool call record was lost')
    await follow(recorder, caller, 'later')
    await recorder.close()
    expect(await report()).toBe(10)
    expect(await lostCalls(app, organizationId)).toEqual([{ actor: 'hub', data: { count: 1 } }])
  })

  test('writes pending records when the service stops', async () => {
    const { stores, service, organization } = await useTestService()
    const organizationId = await organization('demo')
    const stopping = await createCapabilities(createService(stores, service), builtInNames)
    const call = { signal: new AbortController().signal, progress: () => undefined }
    const called = stopping.hub.callTool(
      memberAsToolUser(callerOf(organizationId)),
      { tool_name: 'nothing', args: {} },
      call,
    )
    await expect(called).rejects.toThrow()
    await stopping.close()
    expect(await countRecords(stores.database, organizationId)).toBe(1)
  })
})
