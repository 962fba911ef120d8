import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { testSecret } from './engines/engines.ts'
import { makeConfig } from './harness.ts'
import { startTestProvider } from './oidc-provider.ts'
import { offer, openPage, openSocket, type Page, type PageOptions, pageOrigin } from './page.ts'
import { patience, type ServerProcess, useInstallation } from './processes.ts'

/** Two server processes on one PostgreSQL and one Redis, as behind a load balancer; only that set of engines has both. */
describe.skipIf(!inject('engines').redisUrl)('two nodes', { timeout: 120_000 }, () => {
  test('know the same pages, carry calls to each other, and end what is revoked', async () => {
    const { one, two, page, ticket, me, revoke } = await startNodes()
    const [here, there] = [await page(one), await page(two, { hello: { tab_id: 'tab-2' } })]
    await offer(here, 'add')
    await offer(there, 'pay')
    for (const node of [one, two]) {
      await vi.waitFor(async () => expect(await me(node).sources()).toEqual([here.ready.session, there.ready.session]))
    }
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

  test('take over a page that comes back to the other one, with its calls', async () => {
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

  test('forget the pages of one that dies within 25 s; its calls end with one error', async () => {
    const { one, two, page, me } = await startNodes()
    const kept = await page(one)
    const lost = await page(two, { hello: { tab_id: 'tab-2' } })
    await offer(lost, 'add')
    const sources = [kept.ready.session, lost.ready.session]
    await vi.waitFor(async () => expect(await me(one).sources()).toEqual(sources))
    const call = me(one).call('add')
    await lost.next('tool/call')
    const pings = countPings(kept)
    two.signal('SIGKILL')
    await two.finished
    expect((await call).content[0].text).toContain('SOURCE_GONE')
    await vi.waitFor(async () => expect(await me(one).sources()).toEqual([kept.ready.session]), patience)
    expect(pings(), 'in the server’s own time').toBeLessThanOrEqual(2)
  })
})

async function startNodes() {
  const { config, remove } = await makeConfig()
  const provider = await startTestProvider()
  onTestFinished(async () => {
    await provider.stop()
    remove()
  })
  const settings = {
    DATABASE_URL: config.databaseUrl ?? '',
    REDIS_URL: config.redisUrl ?? '',
    INLAY_REDIS_PREFIX: config.redisPrefix,
    INLAY_SECRET: testSecret,
    INLAY_PUBLIC_URL: 'http://localhost:8787',
  }
  const installations = [useInstallation(settings), useInstallation(settings)] as const
  const one = await installations[0].start()
  const two = await installations[1].start()
  const admin = await installations[0].token('admin@demo.test', 'demo')
  const member = await installations[0].token('member@demo.test', 'demo')
  await one.call('PATCH', '/api/identity-providers/config', {
    token: admin,
    body: { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] },
  })
  const { body: key } = await one.call('POST', '/api/publishable-keys', { token: admin, body: { name: 'Shop' } })
  const id_token = await provider.idToken({ sub: 'mem', email: 'member@demo.test', email_verified: true })
  const ticket = async (node: ServerProcess) => {
    const body = { publishable_key: key.key, id_token, embedding_origin: pageOrigin }
    return (await node.call('POST', '/api/auth/pk-ticket', { body })).body.ticket as string
  }
  return {
    one,
    two,
    ticket,
    page: async (node: ServerProcess, options?: PageOptions): Promise<Page> =>
      openPage(node.url, await ticket(node), options),
    revoke: (node: ServerProcess) => node.call('DELETE', `/api/publishable-keys/${key.id}`, { token: admin }),
    me: (node: ServerProcess) => mcpClient(node, member),
  }
}

/** The server's clock as a page hears it: one ping in 15 s, so a slow machine slows both it and what it measures. */
function countPings({ socket }: Page): () => number {
  let count = 0
  socket.on('ping', () => {
    count += 1
  })
  return () => count
}

const comesIn = (node: ServerProcess, ticket: string): Promise<boolean> =>
  openSocket(node.url, ticket).then(
    () => true,
    () => false,
  )

/** Just enough of an MCP client. */
function mcpClient(node: ServerProcess, token: string) {
  const callTool = async (name: string, args: object, signal?: AbortSignal) => {
    const params = { name, arguments: args }
    const response = await fetch(`${node.url}/mcp`, {
      method: 'POST',
      ...(signal && { signal }),
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    })
    const text = await response.text()
    return JSON.parse(text.match(/^data: (.*)$/m)?.[1] ?? text).result
  }
  return {
    call: (tool_name: string, args: object = {}, signal?: AbortSignal) =>
      callTool('hub_call_tool', { tool_name, args }, signal),
    async sources(): Promise<string[]> {
      const { sources } = (await callTool('hub_list_sources', {})).structuredContent
      return sources.map(({ sourceId }: { sourceId: string }) => sourceId)
    },
  }
}
