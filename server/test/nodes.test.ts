import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { callDeadlineMs } from '@inlay/protocol'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import type { ToolUser } from '../src/kernel/foundation/tool-user.ts'
import { recheckMs } from '../src/kernel/stores/changes.ts'
import { connectRedis } from '../src/kernel/stores/redis.ts'
import { type FoundSource, hubChannels } from '../src/tools/hub/messages.ts'
import { confirmFrame, createFrameKey } from './frames.ts'
import type { HttpService } from './http-server.ts'
import { makeMessage, post } from './mcp-messages.ts'
import { type Pair, startPair } from './node-pair.ts'
import { countPings, startNodes } from './node-processes.ts'
import { offer, openPage, openSocket, type Page, pageOrigin } from './page.ts'
import { patience, type ServerProcess } from './processes.ts'
import { callerFor, member, type Person } from './shop.ts'

const { redisUrl } = inject('engines')

/** Two servers with one PostgreSQL and one Redis, as behind a load balancer. */
describe('two nodes', { timeout: 120_000 }, () => {
  test('see the same pages, forward calls to each other, and close the pages of a revoked key', async () => {
    const { one, two, page, ticket, me, revoke } = await startNodes()
    const [here, there] = [await page(one), await page(two, { hello: { tab_id: 'tab-2' } })]
    await offer(here, 'add')
    await offer(there, 'pay')
    for (const node of [one, two]) {
      await vi.waitFor(async () => expect(await me(node).sources()).toEqual([here.ready.session, there.ready.session]))
    }
    for (const node of [one, two]) expect(await me(node).openTabs()).toEqual({ open_tabs: 2, is_complete: true })
    there.answer(({ args }) => ({ paid: args.sum }))
    here.answer(({ args }) => `added ${args.item}`)
    expect(await me(one).call('pay', { sum: 7 })).toMatchObject({ isError: false, structuredContent: { paid: 7 } })
    expect(await me(two).call('pay', { sum: 8 })).toMatchObject({ structuredContent: { paid: 8 } })
    expect((await me(two).call('add', { item: 'tea' })).content[0].text).toBe('added tea')
    await offer(there, 'add')
    for (const node of [one, two]) expect((await me(node).call('add')).content[0].text).toContain('AMBIGUOUS_TOOL')

    const once = await ticket(one)
    const tries = Array.from({ length: 50 }, (_, n) => comesIn(n % 2 ? one : two, once))
    expect((await Promise.all(tries)).filter(Boolean)).toHaveLength(1)

    const pings = [here, there].map(countPings)
    await revoke(one)
    for (const { closed } of [here, there]) expect(await closed).toMatchObject({ code: 4403 })
    for (const count of pings) expect(count(), 'at once, in the server’s own time').toBeLessThanOrEqual(1)
    await vi.waitFor(async () => expect(await me(one).sources()).toEqual([]))
  })

  test('end the access of a service account on both, when one deletes it', async () => {
    const { one, two, admin: token } = await startPair()
    const body = { name: 'CI', role: 'member' }
    const { body: account } = await one.request('POST', '/service-accounts', { token, body })
    const use = async (node: HttpService) => (await node.request('GET', '/sites', { token: account.key })).status
    expect([await use(one), await use(two)]).toEqual([200, 200])
    await one.request('DELETE', `/service-accounts/${account.id}`, { token })
    expect(await use(one)).toBe(401)
    // Sooner than the other node would check again by itself.
    await vi.waitFor(async () => expect(await use(two)).toBe(401), recheckMs / 2)
  })

  test('take over a page that reconnects to the other one, with its calls', async () => {
    const { one, two, page, me } = await startNodes()
    const before = await page(one)
    await offer(before, 'add')
    const calls = [me(one).call('add', { n: 1 }), me(two).call('add', { n: 2 })]
    const sent = [await before.next('tool/call'), await before.next('tool/call')]
    const client = new AbortController()
    const abandoned = me(one).call('add', { n: 3 }, client.signal)
    const { call_id } = await before.next('tool/call')
    before.socket.terminate()
    const { session, resume_secret: secret } = before.ready
    const stranger = await page(two, { hello: { tab_id: 'x', resume: { session, secret: `${secret}x` } } })
    expect(stranger.ready.resumed).toBe(false)
    stranger.send({ type: 'bye' })
    const after = await page(two, { hello: { resume: { session, secret } } })
    expect(after.ready).toMatchObject({ session, resumed: true })
    const again = [await after.next('tool/call'), await after.next('tool/call')]
    expect(again).toEqual(sent)
    expect(await after.next('tool/call')).toMatchObject({ call_id })
    client.abort()
    await expect(abandoned).rejects.toThrow()
    expect(await after.next('tool/cancel')).toMatchObject({ call_id })
    for (const { call_id, args } of again) after.send({ type: 'tool/result', call_id, result: `n${args.n}` })
    const answers = await Promise.all(calls)
    expect(answers.map(({ content }) => content[0].text)).toEqual(['n1', 'n2'])
    for (const node of [one, two]) {
      await vi.waitFor(async () => expect(await me(node).sources()).toEqual([session]))
    }
    after.answer(() => 'still')
    expect((await me(one).call('add')).content[0].text).toBe('still')
  })
})

describe('a node that another one cannot reach', { timeout: 120_000 }, () => {
  const resumeOf = ({ ready }: Page) => ({ session: ready.session, secret: ready.resume_secret })
  const gone = expect.objectContaining({ envelope: expect.objectContaining({ code: 'SOURCE_GONE' }) })

  test('counts as dead after 7 s: calls to its pages fail, and its own calls are canceled', async () => {
    const pair = await startPair()
    const { one, two, me, proxy } = pair
    const [theirs, ours] = [await pageOfTwo(pair), await one.page(member, { hello: { tab_id: 'tab-2' } })]
    await offer(ours, 'pay')
    const toTwo = me.call('add')
    await theirs.next('tool/call')
    const fromTwo = (await callerFor(two, 'member@demo.test', 'demo')).call('pay')
    fromTwo.catch(() => undefined)
    const { call_id } = await ours.next('tool/call')
    proxy.cut()
    one.pass(6_999)
    await ours.settled()
    expect(ours.unread('tool/cancel')).toEqual([])
    const outcome = expect(toTwo).rejects.toEqual(gone)
    one.pass(1)
    await outcome
    expect(await ours.next('tool/cancel')).toEqual({ type: 'tool/cancel', call_id, reason: 'The caller disconnected' })
    expect((await me.sources()).map(({ sourceId }) => sourceId)).toEqual([ours.ready.session])
  })

  test('stays known while it sends a heartbeat every two seconds', async () => {
    const pair = await startPair()
    const { one, me } = pair
    const page = await pageOfTwo(pair)
    const call = me.call('add')
    const { call_id } = await page.next('tool/call')
    for (let round = 0; round < 10; round += 1) {
      await beat(pair)
      await page.settled()
      one.pass(2_000)
    }
    page.send({ type: 'tool/result', call_id, result: 'done' })
    expect((await call).content[0]).toEqual({ type: 'text', text: 'done' })
  })

  test('gets no call whose message is lost: the call ends with one error after a minute', async () => {
    const pair = await startPair()
    const { one, proxy } = pair
    const page = await pageOfTwo(pair)
    const { switchboard } = one.service.hub
    const owner = { organization_id: await one.organization('demo'), identity: 'email:member@demo.test' }
    const [found] = await switchboard.find(owner, 'tools')
    const order = { call_id: 'call-1', name: 'add', args: {}, definition_hash: found?.tools[0]?.hash ?? '' }
    const call = { signal: new AbortController().signal, progress: () => undefined }
    proxy.mute()
    let failure: string | undefined
    switchboard.call(found as FoundSource, { owner } as ToolUser, order, call).catch(({ envelope }) => {
      failure = envelope.code
    })
    await proxy.dropped()
    proxy.restore()
    for (let passed = 0; passed < callDeadlineMs; passed += 2_000) {
      await beat(pair)
      expect(failure).toBeUndefined()
      one.pass(2_000)
    }
    await vi.waitFor(() => expect(failure).toBe('CALL_TIMED_OUT'))
    await page.settled()
    expect(page.unread('tool/call')).toEqual([])
  })

  test.each<[string, (pair: Pair) => unknown, number]>([
    [
      'a revoked key',
      ({ one, admin }) => one.request('DELETE', `/publishable-keys/${one.keyId}`, { token: admin }),
      4403,
    ],
    [
      'an erased user',
      async ({ one, admin }) => {
        const { userId } = await one.exchange(member)
        await one.request('DELETE', `/end-users/${userId}`, { token: admin })
      },
      4403,
    ],
    ['a restart', ({ one }) => one.drain(), 1012],
  ])('is asked for a session that resumes on another node; %s meanwhile closes the socket', async (_, change, code) => {
    const pair = await startPair()
    const { one, proxy } = pair
    const page = await pageOfTwo(pair)
    page.socket.terminate()
    const socket = await openSocket(one.local, await one.ticket(member))
    proxy.cut()
    const hello = { type: 'hello', tab_id: 'tab-1', url: `${pageOrigin}/`, title: '', resume: resumeOf(page) }
    socket.socket.send(JSON.stringify(hello))
    // The server responds to a second message at once, so it has read the first.
    socket.socket.ping()
    await once(socket.socket, 'pong')
    await change(pair)
    expect((await socket.closed).code).toBe(code)
  })

  test.each<[string, (pair: Pair, page: Page) => Promise<unknown>]>([
    ['a key', ({ one, admin }) => one.request('DELETE', `/publishable-keys/${one.keyId}`, { token: admin })],
    [
      'a user',
      async ({ one, admin }, page) => one.request('DELETE', `/end-users/${page.ready.user.id}`, { token: admin }),
    ],
  ])('closes the pages of %s that was removed meanwhile, once it reconnects', async (_, remove) => {
    const pair = await startPair()
    const page = await pageOfTwo(pair)
    pair.proxy.cut()
    await remove(pair, page)
    pair.proxy.restore()
    expect((await page.closed).code).toBe(4403)
  })

  test('closes them within 30 s if the messages are lost', async () => {
    const pair = await startPair()
    const { one, two, admin, proxy } = pair
    const page = await pageOfTwo(pair)
    proxy.mute()
    await one.request('DELETE', `/end-users/${page.ready.user.id}`, { token: admin })
    for (const milliseconds of [20_000, 9_999, 1]) {
      await page.settled()
      two.clock.now += milliseconds
      two.service.runtime.sweep()
    }
    expect(await page.closed).toMatchObject({ code: 4403, reason: 'The end user was deleted' })
  })
})

describe('a frame on one node', { timeout: 120_000 }, () => {
  test.each([
    ['loses what its confirmation gave it, as soon as another node removes it', false],
    ['loses it within 30 s if the message is lost', true],
  ])('gets its confirmation from another, and %s', async (_, isLost) => {
    const { one, two, admin, proxy } = await startPair()
    const frame = await createFrameKey(one.url, () => one.clock.now)
    const { ticket, userId } = await one.frameTicket(member as NonNullable<Person>, frame)
    const page = await openPage(two.local, ticket, { origin: one.url, hello: { url: `${pageOrigin}/` } })
    expect(await page.next('frame')).toMatchObject({ is_confirmed: false })
    await confirmFrame(one, frame, userId, { issuer: one.issuer })
    expect(await page.next('frame')).toMatchObject({ is_confirmed: true })
    const { body } = await one.request('GET', `/end-users/${userId}/confirmed-browsers`, { token: admin })
    if (isLost) proxy.mute()
    await one.request('DELETE', `/confirmed-browsers/${body.browsers[0].id}`, { token: admin })
    for (const milliseconds of isLost ? [20_000, 9_999, 1] : []) {
      await page.settled()
      two.clock.now += milliseconds
      two.service.runtime.sweep()
    }
    expect(await page.closed).toMatchObject({ code: 4401, reason: 'The browser is no longer confirmed' })
  })
})

describe('a question', { timeout: 120_000 }, () => {
  async function ask(answer: (page: Page, call_id: string) => void) {
    const { one, two } = await startPair()
    const frame = await createFrameKey(one.url, () => one.clock.now)
    const { ticket, userId } = await one.frameTicket(member as NonNullable<Person>, frame)
    await confirmFrame(one, frame, userId, { issuer: one.issuer })
    const page = await openPage(two.local, ticket, { origin: one.url, hello: { url: `${pageOrigin}/`, visible: true } })
    const { switchboard } = one.service.hub
    const owner = { organization_id: await one.organization('demo'), identity: 'email:member@demo.test' }
    const find = () => switchboard.find(owner, { question: 'key' })
    await vi.waitFor(async () => expect(await find()).toMatchObject([{ asker: { isVisible: true, isAsking: false } }]))
    const [tab] = await find()
    const question = { connector: { name: 'crm', origin: 'https://crm.example' }, description: 'Pays', key: 'key' }
    const order = { call_id: 'call-1', name: 'crm.pay', args: { sum: 5 }, definition_hash: 'h', question }
    const call = { signal: new AbortController().signal, progress: () => undefined }
    const who = { owner } as ToolUser
    const answered = switchboard.call(tab as FoundSource, who, order, call)
    expect(await page.next('tool/ask')).toMatchObject({ call_id: 'call-1', args: { sum: 5 } })
    expect(await find()).toMatchObject([{ asker: { isAsking: true } }])
    answer(page, 'call-1')
    return { answered, page }
  }

  test('can be allowed in a page on another node', async () => {
    const { answered, page } = await ask((page, call_id) =>
      page.send({ type: 'tool/approval', call_id, state: 'allowed' }),
    )
    expect(await answered).toEqual({ result: undefined })
    expect(await page.next('tool/run')).toMatchObject({ call_id: 'call-1' })
  })

  test('does not run the call if it is allowed after the caller’s node ended it, even if the page’s node missed that', async () => {
    const pair = await startPair()
    const { me, proxy } = pair
    const page = await pageOfTwo(pair)
    const client = new AbortController()
    const answered = expect(me.call('add', {}, { signal: client.signal })).rejects.toThrow()
    const { call_id } = await page.next('tool/call')
    proxy.cut()
    client.abort()
    await answered
    proxy.restore()
    await vi.waitFor(async () => {
      page.send({ type: 'tool/approval', call_id, state: 'allowed' })
      await page.settled()
      expect(page.unread('tool/cancel')[0]).toMatchObject({ call_id, reason: 'The call has ended' })
    }, patience)
    expect(page.unread('tool/run')).toEqual([])
  })

  test('can be declined in a page on another node', async () => {
    const error = { code: 'declined', message: 'No' } as const
    const { answered } = await ask((page, call_id) => page.send({ type: 'tool/result', call_id, error }))
    expect(await answered).toEqual({ error })
  })
})

describe('notifications/cancelled on another node', { timeout: 120_000 }, () => {
  async function startCalls() {
    const pair = await startPair()
    const { one } = pair
    const page = await pageOfTwo(pair)
    const token = await one.tokenFor('member@demo.test', 'demo')
    const params = { name: 'hub_call_tool', arguments: { tool_name: 'add' } }
    const call = (node: HttpService) => post(node, token, makeMessage('2025-11-25', 'tools/call', params, 7))
    const { headers } = makeMessage('2025-11-25', '')
    const notification = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }
    const cancel = (node: HttpService) => post(node, token, { headers, body: notification })
    return { ...pair, page, call, cancel }
  }

  test('ends the call', async () => {
    const { one, two, page, call, cancel } = await startCalls()
    const answered = call(one)
    const { call_id } = await page.next('tool/call')
    await cancel(two)
    expect(await page.next('tool/cancel')).toMatchObject({ call_id, reason: 'The client cancelled the call' })
    expect((await answered).body.result.content[0].text).toContain('CALL_CANCELLED')
  })

  test('ends the call even if the answers take longer than usual', async () => {
    const { one, two, proxy, page, call, cancel } = await startCalls()
    const answered = call(one)
    const { call_id } = await page.next('tool/call')
    const heard = await listen(one, 'mcp:cancel')
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    proxy.hold()
    await cancel(two)
    while (!heard.some((message) => Object.hasOwn(message as object, 'found'))) await setImmediate()
    vi.advanceTimersByTime(1_000)
    vi.useRealTimers()
    proxy.restore()
    expect(await page.next('tool/cancel')).toMatchObject({ call_id })
    await answered
  })

  test('that gets lost leaves the call running, and the next one ends it', async () => {
    const { one, two, proxy, page, call, cancel } = await startCalls()
    const answered = call(two)
    const { call_id } = await page.next('tool/call')
    proxy.mute()
    const dropped = proxy.dropped()
    await cancel(one)
    await dropped
    proxy.restore()
    await page.settled()
    expect(page.unread('tool/cancel')).toEqual([])
    await cancel(one)
    expect(await page.next('tool/cancel')).toMatchObject({ call_id, reason: 'The client cancelled the call' })
    expect((await answered).body.result.content[0].text).toContain('CALL_CANCELLED')
  })

  test('ends no call if each node has one that matches', async () => {
    const { one, two, page, call, cancel } = await startCalls()
    const answered = call(one)
    const first = await page.next('tool/call')
    const ambiguous = call(two)
    const second = await page.next('tool/call')
    const heard = await listen(one, 'mcp:cancel')
    await cancel(two)
    const found = expect.objectContaining({ found: expect.any(String), count: 1 })
    await vi.waitFor(() => expect(heard.filter((message) => found.asymmetricMatch(message))).toHaveLength(2))
    page.send({ type: 'tool/result', call_id: second.call_id, result: 'done' })
    expect((await ambiguous).body.result.content[0].text).toBe('done')
    expect(page.unread('tool/cancel')).toEqual([])
    // Canceling again ends the remaining call, so the first time it was left running on purpose.
    await cancel(two)
    expect(await page.next('tool/cancel')).toMatchObject({ call_id: first.call_id })
    await answered
  })
})

describe('a session on another node', { timeout: 180_000 }, () => {
  test('is not taken over by the same account if its address is no longer verified', async () => {
    const { one, two } = await startPair()
    const page = await openPage(two.local, await one.ticket(member))
    page.socket.terminate()
    const { session, resume_secret: secret } = page.ready
    const hello = { tab_id: 'tab-2', resume: { session, secret } }
    const unverified = await one.page({ ...member, email_verified: false } as Person, { hello })
    expect(unverified.ready.resumed).toBe(false)
    const back = await one.page(member, { hello: { resume: { session, secret } } })
    expect(back.ready).toMatchObject({ session, resumed: true })
  })

  test('is listed and taken over with 4 MiB of definitions, in messages that Redis accepts', async () => {
    const { one, two, me } = await startPair()
    const page = await openPage(two.local, await one.ticket(member))
    const lengths: number[] = []
    const listener = connectRedis(redisUrl ?? '')
    onTestFinished(() => listener.disconnect())
    listener.on('pmessage', (_pattern, _channel, text: string) => lengths.push(text.length))
    await listener.psubscribe(`${one.config.redisPrefix}:*`)
    const names = Array.from({ length: 60 }, (_, n) => `tool-${n}`)
    for (let from = 0; from < names.length; from += 10) {
      const set = names.slice(from, from + 10).map((name) => ({ name, inputSchema: { text: '"'.repeat(30_000) } }))
      page.send({ type: 'tools/changed', set })
      await page.next('tools/accepted')
    }
    const listed = async () => (await me.tools()).map(({ name }) => name)
    await vi.waitFor(async () => expect(await listed()).toEqual(names), patience)
    page.socket.terminate()
    const { session, resume_secret: secret } = page.ready
    const back = await one.page(member, { hello: { resume: { session, secret } } })
    expect(back.ready).toMatchObject({ session, resumed: true })
    expect(await listed()).toEqual(names)
    expect(Math.max(...lengths)).toBeGreaterThan(1024 * 1024)
    expect(Math.max(...lengths)).toBeLessThan(4 * 1024 * 1024)
  })
})

/** A page on the second node that the first node knows. */
async function pageOfTwo({ one, two, me }: Pair): Promise<Page> {
  const page = await openPage(two.local, await one.ticket(member))
  await offer(page, 'add')
  await vi.waitFor(async () => expect(await me.sources()).toHaveLength(1))
  return page
}

/** Collects the messages that a node receives on a channel from now on. */
async function listen({ service }: HttpService, channel: string): Promise<unknown[]> {
  const messages: unknown[] = []
  onTestFinished(await service.bus.subscribe(channel, (message) => void messages.push(message)))
  return messages
}

/** The second node's heartbeat, two seconds after the last one. */
async function beat({ one, two }: Pair): Promise<void> {
  const heard = nextMessage(one)
  two.clock.now += 2_000
  two.service.hub.switchboard.sweep()
  await heard
}

/** Resolves when a node's hub has received the next broadcast. */
async function nextMessage({ service }: HttpService): Promise<void> {
  let end: (() => Promise<void>) | undefined
  const heard = new Promise<void>((resolve) => {
    service.bus
      .subscribe(hubChannels.all, () => resolve())
      .then((unsubscribe) => {
        end = unsubscribe
      })
  })
  await heard
  await end?.()
}

const comesIn = (node: ServerProcess, ticket: string): Promise<boolean> =>
  openSocket(node.url, ticket).then(
    () => true,
    () => false,
  )
