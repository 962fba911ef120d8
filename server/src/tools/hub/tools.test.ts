import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { obtain, register } from '../../../test/oauth-client.ts'
import { offer, pageOrigin } from '../../../test/page.ts'
import { member, type Shop, startShop } from '../../../test/shop.ts'

let shop: Shop
let headers: { Authorization: string }
beforeAll(async () => {
  shop = await startShop()
  headers = { Authorization: `Bearer ${await shop.tokenFor('member@demo.test', 'demo')}` }
})
afterAll(() => shop.close())
afterEach(() => shop.closePages())

async function connect(mode: 'auto' | 'legacy', own: Record<string, string> = headers) {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${shop.url}/mcp`), { requestInit: { headers: own } }))
  onTestFinished(() => client.close())
  return client
}

describe.each(['auto', 'legacy'] as const)('an MCP client of a member (%s)', (mode) => {
  test('lists the tools of the member’s open page and calls one', async () => {
    const page = await shop.page(member)
    await offer(page, 'add', 'remove')
    page.answer(({ args }) => ({ content: [{ type: 'text', text: `added ${JSON.stringify(args)}` }] }))
    const client = await connect(mode)
    const call = async (name: string, args = {}) => client.callTool({ name, arguments: args })

    const source = { sourceId: page.ready.session, tabId: 'tab-1', toolCount: 2 }
    expect((await call('hub_list_sources')).structuredContent).toMatchObject({ count: 1, sources: [source] })
    const add = { name: 'add', description: 'Does add', inputSchema: expect.any(Object) }
    expect((await call('hub_list_tools', { search: 'ADD' })).structuredContent).toEqual({ count: 1, tools: [add] })
    expect((await call('hub_list_tools', { search: 'add', include_sources: true })).structuredContent).toMatchObject({
      tools: [{ ...add, sources: [source] }],
    })
    const { content, isError = false, _meta } = await call('hub_call_tool', { tool_name: 'add', args: { sku: 7 } })
    expect(isError).toBe(false)
    expect(content).toEqual([{ type: 'text', text: 'added {"sku":7}' }])
    expect(_meta?.['inlay/source']).toMatchObject({ kind: 'page', tabId: 'tab-1', origin: pageOrigin, title: 'Cart' })
  })

  test('gets the title and hints of a tool', async () => {
    const page = await shop.page(member)
    const tool = { name: 'pay', title: 'Pay', annotations: { readOnlyHint: false, consequentialHint: true } }
    page.send({ type: 'tools/list', tools: [tool] })
    await page.next('tools/accepted')
    const { structuredContent } = await (await connect(mode)).callTool({ name: 'hub_list_tools', arguments: {} })
    expect(structuredContent).toMatchObject({ tools: [tool] })
  })

  test('gets the list of pages when several offer the tool', async () => {
    const pages = [await shop.page(member), await shop.page(member)]
    for (const page of pages) await offer(page, 'add')
    const { isError, content } = await (await connect(mode)).callTool({
      name: 'hub_call_tool',
      arguments: { tool_name: 'add' },
    })
    expect(isError).toBe(true)
    const { code, data } = JSON.parse((content[0] as { text: string }).text)
    expect(code).toBe('AMBIGUOUS_TOOL')
    expect(data.sources.map(({ sourceId }: { sourceId: string }) => sourceId).sort()).toEqual(
      pages.map(({ ready }) => ready.session).sort(),
    )
  })

  test('gets the documented error and advice when the tool doesn’t exist', async () => {
    const client = await connect(mode)
    const use = async (args: Record<string, unknown>) => {
      const { isError, content } = await client.callTool({ name: 'hub_call_tool', arguments: args })
      const [error, advice, ...rest] = (content as { text: string }[]).map(({ text }) => text)
      const { code, message, data } = JSON.parse(error ?? '')
      expect([isError, code, message, rest]).toEqual([true, 'NOT_FOUND', 'Resource not found', []])
      return [data, advice]
    }
    const missing = { code: 'RESOURCE_NOT_FOUND', resource: 'hub_tool', resourceId: 'pay' }
    expect(await use({ tool_name: 'pay' })).toEqual([
      missing,
      'No page is open. Ask the user to open a page that has the Inlay widget, to sign in there as member@demo.test, and to leave the page open. Then call the tool again.',
    ])
    const page = await shop.page(member)
    await offer(page, 'add')
    expect(await use({ tool_name: 'pay' })).toEqual([
      missing,
      'The user’s open page doesn’t offer this tool. List the tools that can be called now with hub_list_tools.',
    ])
    expect(await use({ tool_name: 'pay', source_id: page.ready.session })).toEqual([
      missing,
      'This page has no tool with that name. List its tools with hub_list_tools and this source_id.',
    ])
    expect(await use({ tool_name: 'add', source_id: 'gone' })).toEqual([
      { code: 'RESOURCE_NOT_FOUND', resource: 'hub_source', resourceId: 'gone' },
      'No open page has this source_id. The user may have closed or reloaded the page. List the open pages with hub_list_sources.',
    ])
  })

  test('receives progress during a call', async () => {
    const page = await shop.page(member)
    await offer(page, 'add')
    const client = await connect(mode)
    const told: object[] = []
    const onprogress = (progress: object) => {
      told.push(progress)
      page.send({ type: 'tool/result', call_id, result: { content: [{ type: 'text', text: 'done' }] } })
    }
    const answered = client.callTool({ name: 'hub_call_tool', arguments: { tool_name: 'add' } }, { onprogress })
    const { call_id } = await page.next('tool/call')
    page.send({ type: 'tool/progress', call_id, progress: 1, total: 2, message: 'half' })
    expect((await answered).content[0]).toMatchObject({ text: 'done' })
    expect(told).toEqual([{ progress: 1, total: 2, message: 'half' }])
  })
})

test('a page receives the name of the calling client if the token was issued to one', async () => {
  const page = await shop.page(member)
  await offer(page, 'add')
  const names: (string | undefined)[] = []
  page.answer(({ client_name }) => names.push(client_name))
  const { access_token } = await obtain(await register(shop.url), 'member@demo.test', { resource: `${shop.url}/mcp` })
  for (const authorization of [`Bearer ${access_token}`, headers.Authorization]) {
    const client = await connect('auto', { authorization })
    await client.callTool({ name: 'hub_call_tool', arguments: { tool_name: 'add' } })
  }
  expect(names).toEqual(['Tool', undefined])
})

test('aborting a request in the newer era cancels the call in the page', async () => {
  const page = await shop.page(member)
  await offer(page, 'add')
  const client = await connect('auto')
  const abort = new AbortController()
  const { signal } = abort
  const answered = client.callTool({ name: 'hub_call_tool', arguments: { tool_name: 'add' } }, { signal })
  const { call_id } = await page.next('tool/call')
  abort.abort()
  await expect(answered).rejects.toThrow()
  expect((await page.next('tool/cancel')).call_id).toBe(call_id)
})
