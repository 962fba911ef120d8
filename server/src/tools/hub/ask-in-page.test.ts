import { goneAfterMs } from '@inlay/protocol'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { z } from 'zod'
import { type Delegation, memberClaims, startDelegation } from '../../../test/delegation.ts'
import { answerWith, startInterceptor } from '../../../test/interceptor.ts'
import { type Page, pageOrigin } from '../../../test/page.ts'
import { forgetIdentity } from '../../visitors/end-users/held-identities.ts'

let world: Delegation
let me: Awaited<ReturnType<Delegation['caller']>>
/** Amounts that the tool server was asked to pay. */
let paid: string[] = []
beforeAll(async () => {
  world = await startDelegation()
  me = await world.caller()
})
afterAll(() => world.close())
afterEach(async () => {
  pass(goneAfterMs)
  world.clock.now -= goneAfterMs
  await world.reset()
})

const failure = (code: string) => expect.objectContaining({ envelope: expect.objectContaining({ code }) })

function pass(milliseconds: number): void {
  world.clock.now += milliseconds
  world.service.runtime.sweep()
  world.service.hub.switchboard.sweep()
}

/** Adds a connector with a payment tool. The end user was identified by a page that is closed now. */
async function setUp(annotations?: Record<string, boolean>, read_only_tools: string[] = []) {
  const connector = await world.addConnector({ read_only_tools })
  await world.connect()
  paid = []
  world.tools.more = (server) =>
    server.registerTool(
      'pay',
      {
        title: 'Pay',
        description: 'Pays a sum',
        inputSchema: z.object({ sum: z.number() }),
        ...(annotations && { annotations }),
      },
      ({ sum }) => {
        paid.push(String(sum))
        return { content: [{ type: 'text', text: `paid ${sum}` }] }
      },
    )
  return connector
}

const pay = (sum: number, call = {}) => me.call('crm.pay', { sum }, call)
const allow = (page: Page, call_id: string) => page.send({ type: 'tool/approval', call_id, state: 'allowed' })

describe('a connector’s tool that may change something', () => {
  test('doesn’t run if the user’s identity was deleted while the question was open', async () => {
    await setUp()
    const page = await world.page()
    const answered = pay(5)
    const { call_id } = await page.next('tool/ask')
    const organizationId = await world.organization('demo')
    const endUsers = await world.service.database.asOrg(
      organizationId,
      (sql) => sql<{ id: string }>`select id from end_users`,
    )
    for (const { id } of endUsers) await forgetIdentity(world.service, organizationId, id)
    allow(page, call_id)
    await expect(answered).rejects.toEqual(failure('DELEGATION_FAILED'))
    expect(paid).toEqual([])
  })

  test.each([
    ['without annotations', undefined],
    ['with readOnlyHint: false', { readOnlyHint: false }],
    ['with both readOnlyHint and destructiveHint', { readOnlyHint: true, destructiveHint: true }],
  ])('%s runs once after the user allows it, with the arguments that were shown', async (_, annotations) => {
    await setUp(annotations)
    const page = await world.page()
    const answered = pay(5)
    const question = await page.next('tool/ask')
    expect(question).toEqual({
      type: 'tool/ask',
      call_id: expect.any(String),
      connector: { name: 'crm', origin: new URL(world.tools.resource).origin },
      tool: { name: 'crm.pay', title: 'Pay', description: 'Pays a sum' },
      args: { sum: 5 },
      definition_hash: expect.any(String),
      deadline: world.clock.now + 50_000,
    })
    expect(paid).toEqual([])
    allow(page, question.call_id)
    expect(await answered).toMatchObject({ content: [{ text: 'paid 5' }], isError: false })
    expect(await page.next('tool/run')).toEqual({ type: 'tool/run', call_id: question.call_id })
    allow(page, question.call_id)
    expect(await page.next('tool/cancel'), 'an answer counts once').toMatchObject({ reason: 'The call has ended' })
    expect(paid).toEqual(['5'])
  })

  test('doesn’t run when the user declines', async () => {
    await setUp()
    const page = await world.page()
    const answered = pay(5)
    const { call_id } = await page.next('tool/ask')
    page.send({ type: 'tool/result', call_id, error: { code: 'declined', message: 'The user declined the call' } })
    expect(await answered).toMatchObject({ content: [{ text: 'The user declined the call' }], isError: true })
    expect(paid).toEqual([])
  })

  test('fails without an open page and tells the caller where to approve', async () => {
    await setUp()
    const token = await world.tokenFor('admin@demo.test', 'demo')
    const allowed_domains = ['https://*.preview.example', 'https://shop.example']
    await world.request('PUT', '/organizations/current/allowed-domains', { token, body: { allowed_domains } })
    onTestFinished(async () => {
      await world.request('PUT', '/organizations/current/allowed-domains', { token, body: { allowed_domains: [] } })
    })
    await expect(pay(5)).rejects.toMatchObject({
      envelope: {
        code: 'APPROVAL_NEEDED',
        status: 403,
        message: expect.stringContaining('open https://shop.example, signed in as member@demo.test'),
        data: { tool: 'crm.pay', pages: ['https://shop.example'] },
      },
    })
    expect(paid).toEqual([])
  })

  test('doesn’t ask about a tool that the server doesn’t list', async () => {
    await setUp()
    const page = await world.page()
    await expect(me.call('crm.steal')).rejects.toMatchObject({
      envelope: { data: { code: 'RESOURCE_NOT_FOUND', resource: 'hub_tool', resourceId: 'crm.steal' } },
    })
    await page.settled()
    expect(page.unread('tool/ask')).toEqual([])
  })

  test('doesn’t ask if the governance provider blocks the call', async () => {
    await setUp()
    const page = await world.page()
    const { url } = await startInterceptor(answerWith({ status: 'failure', message: 'Not today', violations: [] }))
    await world.asAdmin('PATCH', '/governance/providers/config', {
      interceptor_url: url,
      interceptor_name: 'policies',
      api_key: 'key-of-the-interceptor',
      is_enabled: true,
    })
    onTestFinished(async () => void (await world.asAdmin('DELETE', '/governance/providers/config')))
    await expect(pay(5)).rejects.toEqual(failure('CALL_REFUSED'))
    await page.settled()
    expect(page.unread('tool/ask')).toEqual([])
  })
})

describe('a connector’s tool that only reads', () => {
  const lists = () => world.tools.asked.filter(({ headers }) => headers.get('mcp-method') === 'tools/list').length

  test('by its annotations runs without asking, and without listing the tools on every call', async () => {
    await setUp({ readOnlyHint: true })
    const page = await world.page()
    expect(await pay(5)).toMatchObject({ content: [{ text: 'paid 5' }] })
    const before = lists()
    await pay(6)
    expect([lists(), paid]).toEqual([before, ['5', '6']])
    await page.settled()
    expect(page.unread('tool/ask')).toEqual([])
  })

  test('needs approval within 30 seconds after its server removes readOnlyHint', async () => {
    await setUp({ readOnlyHint: true })
    await pay(5)
    await setUpAgain()
    world.clock.now += 30_000
    await expect(pay(6)).rejects.toEqual(failure('APPROVAL_NEEDED'))

    async function setUpAgain() {
      world.tools.more = (server) =>
        server.registerTool('pay', { inputSchema: z.object({ sum: z.number() }) }, () => ({ content: [] }))
    }
  })

  test('because an administrator marked it read-only runs without asking until it’s unmarked', async () => {
    const { id } = await setUp(undefined, ['pay'])
    expect(await pay(5)).toMatchObject({ content: [{ text: 'paid 5' }] })
    const { body } = await world.asAdmin('PATCH', `/connectors/${id}`, { read_only_tools: [] })
    expect(body.read_only_tools).toEqual([])
    await expect(pay(6)).rejects.toEqual(failure('APPROVAL_NEEDED'))
  })
})

describe('the question', () => {
  test('is asked in the tab in front and moves to the next when that closes; without tabs the call fails', async () => {
    await setUp()
    const back = await world.page({ hello: { tab_id: 'back', visible: true } })
    world.clock.now += 1
    const front = await world.page({ hello: { tab_id: 'front', visible: true } })
    world.clock.now += 1
    const hidden = await world.page({ hello: { tab_id: 'hidden', visible: false } })
    const answered = expect(pay(5)).rejects.toEqual(failure('APPROVAL_NEEDED'))
    for (const page of [front, back, hidden]) {
      await page.next('tool/ask')
      page.send({ type: 'bye' })
    }
    await answered
    expect(paid).toEqual([])
  })

  test('is asked in the tab that became visible', async () => {
    await setUp()
    const one = await world.page({ hello: { tab_id: 'one', visible: true } })
    const two = await world.page({ hello: { tab_id: 'two', visible: true } })
    for (const page of [one, two]) page.send({ type: 'page', url: `${pageOrigin}/`, title: '', visible: page === one })
    await Promise.all([one.settled(), two.settled()])
    const answered = pay(5)
    allow(one, (await one.next('tool/ask')).call_id)
    await answered
    expect(two.unread('tool/ask')).toEqual([])
  })

  test('of a retry is asked in the tab of the first question', async () => {
    await setUp()
    const one = await world.page({ hello: { tab_id: 'one', visible: true } })
    const first = pay(5)
    const { call_id } = await one.next('tool/ask')
    const two = await world.page({ hello: { tab_id: 'two', visible: true } })
    one.send({ type: 'page', url: `${pageOrigin}/`, title: '', visible: false })
    await one.settled()
    const second = pay(5)
    allow(one, (await one.next('tool/ask')).call_id)
    one.send({ type: 'tool/result', call_id, error: { code: 'replaced', message: 'Made again' } })
    expect(await second).toMatchObject({ isError: false })
    expect(await first).toMatchObject({ content: [{ text: 'Made again' }], isError: true })
    expect([paid, two.unread('tool/ask')]).toEqual([['5'], []])
  })

  test('times out after 50 seconds across all tabs', async () => {
    await setUp()
    const one = await world.page({ hello: { tab_id: 'one', visible: true } })
    const two = await world.page({ hello: { tab_id: 'two', visible: false } })
    const answered = pay(5)
    await one.next('tool/ask')
    for (const milliseconds of [20_000, 20_000]) {
      pass(milliseconds)
      await Promise.all([one.settled(), two.settled()])
    }
    one.send({ type: 'bye' })
    const { call_id } = await two.next('tool/ask')
    pass(9_999)
    await two.settled()
    expect(two.unread('tool/cancel')).toEqual([])
    pass(1)
    await expect(answered).rejects.toEqual(failure('APPROVAL_TIMED_OUT'))
    expect(await two.next('tool/cancel')).toMatchObject({ call_id })
    allow(two, call_id)
    expect(await two.next('tool/cancel')).toMatchObject({ call_id, reason: 'The call has ended' })
    expect(paid).toEqual([])
  })

  test('is withdrawn when the caller cancels', async () => {
    await setUp()
    const page = await world.page()
    const client = new AbortController()
    const answered = expect(pay(5, { signal: client.signal })).rejects.toEqual(failure('CALL_CANCELLED'))
    const { call_id } = await page.next('tool/ask')
    client.abort('The client disconnected')
    await answered
    expect(await page.next('tool/cancel')).toMatchObject({ call_id, reason: 'The client disconnected' })
    allow(page, call_id)
    await page.next('tool/cancel')
    expect(paid).toEqual([])
  })

  test('is asked again when the frame reconnects', async () => {
    await setUp()
    const page = await world.page()
    const answered = pay(5)
    const { call_id } = await page.next('tool/ask')
    page.socket.terminate()
    const { session, resume_secret: secret } = page.ready
    const back = await world.page({ hello: { resume: { session, secret } } })
    expect(await back.next('tool/ask')).toMatchObject({ call_id, args: { sum: 5 } })
    allow(back, call_id)
    expect(await answered).toMatchObject({ isError: false })
  })

  test('fails as SOURCE_BUSY while 64 others are open', async () => {
    await setUp()
    const page = await world.page()
    const calls = Array.from({ length: 64 }, (_, sum) => pay(sum))
    const outcomes = Promise.allSettled(calls)
    await Promise.all(calls.map(() => page.next('tool/ask')))
    await expect(pay(64)).rejects.toEqual(failure('SOURCE_BUSY'))
    page.send({ type: 'bye' })
    expect(new Set((await outcomes).map(({ status }) => status))).toEqual(new Set(['rejected']))
    expect(paid).toEqual([])
  })
})

describe('the question can’t be answered', () => {
  test.each([
    ['another member', { sub: 'adm', email: 'admin@demo.test', email_verified: true }],
    ['an end user whose email address isn’t verified', { ...memberClaims, sub: 'eve', email_verified: false }],
  ])('in the page of %s', async (_, claims) => {
    await setUp()
    const theirs = await world.page({ claims, hello: { tab_id: 'theirs', visible: true } })
    await expect(pay(5)).rejects.toEqual(failure('APPROVAL_NEEDED'))
    const mine = await world.page()
    const answered = pay(5)
    const { call_id } = await mine.next('tool/ask')
    allow(theirs, call_id)
    expect(await theirs.next('tool/cancel')).toMatchObject({ call_id, reason: 'The call has ended' })
    mine.send({ type: 'tool/result', call_id, error: { code: 'declined', message: 'No' } })
    expect(await answered).toMatchObject({ isError: true })
    expect([paid, theirs.unread('tool/ask')]).toEqual([[], []])
  })

  test('by a script of the embedding page with its own socket', async () => {
    await setUp()
    const script = await world.page({ origin: pageOrigin, hello: { visible: true } })
    await expect(pay(5)).rejects.toEqual(failure('APPROVAL_NEEDED'))
    const frame = await world.page({ hello: { tab_id: 'frame' } })
    const answered = pay(5)
    const { call_id } = await frame.next('tool/ask')
    allow(script, call_id)
    expect(await script.next('tool/cancel')).toMatchObject({ call_id, reason: 'The call has ended' })
    frame.send({ type: 'bye' })
    await expect(answered.catch(({ envelope }) => envelope.code)).resolves.toBe('APPROVAL_NEEDED')
    expect([paid, script.unread('tool/ask')]).toEqual([[], []])
  })

  test('by a script that takes over the frame’s session', async () => {
    await setUp()
    const frame = await world.page()
    const answered = expect(pay(5)).rejects.toEqual(failure('APPROVAL_NEEDED'))
    const { call_id } = await frame.next('tool/ask')
    frame.socket.terminate()
    const { session, resume_secret: secret } = frame.ready
    const script = await world.page({ origin: pageOrigin, hello: { resume: { session, secret } } })
    expect(script.ready.resumed).toBe(false)
    await answered
    allow(script, call_id)
    await script.next('tool/cancel')
    expect([paid, script.unread('tool/ask')]).toEqual([[], []])
  })

  test('by a tool result', async () => {
    await setUp()
    const page = await world.page()
    let isOver = false
    const answered = pay(5).finally(() => {
      isOver = true
    })
    const { call_id } = await page.next('tool/ask')
    for (const result of [undefined, null, true, 'allowed', { state: 'allowed' }])
      page.send({ type: 'tool/result', call_id, result })
    await page.settled()
    await vi.waitFor(() => expect([isOver, paid]).toEqual([false, []]))
    page.send({ type: 'tool/result', call_id, error: { code: 'declined', message: 'No' } })
    expect(await answered).toMatchObject({ isError: true })
  })
})
