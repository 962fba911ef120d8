import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { makeMessage, post } from '../../../test/mcp-messages.ts'
import { offer, type Page } from '../../../test/page.ts'
import { member, type Shop, startShop } from '../../../test/shop.ts'

let shop: Shop
let token: string
beforeAll(async () => {
  shop = await startShop()
  token = await shop.tokenFor('member@demo.test', 'demo')
})
afterAll(() => shop.close())
afterEach(() => shop.closePages())

const endpoint = () => new URL(`${shop.url}/mcp`)
const transportOptions = () => ({ requestInit: { headers: { authorization: `Bearer ${token}` } } })
const params = { name: 'hub_call_tool', arguments: { tool_name: 'pay' } }

interface CallOptions {
  timeout?: number
  signal?: AbortSignal
}

async function connectV1() {
  const client = new ClientV1({ name: 'test', version: '1.0.0' })
  await client.connect(new TransportV1(endpoint(), transportOptions()))
  onTestFinished(() => client.close())
  return (options: CallOptions) => client.callTool(params, undefined, options)
}

async function connectV2(mode: 'auto' | 'legacy') {
  const client = new ClientV2({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
  await client.connect(new TransportV2(endpoint(), transportOptions()))
  onTestFinished(() => client.close())
  return (options: CallOptions) => client.callTool(params, options)
}

async function openAskingPage(): Promise<Page> {
  const page = await shop.page(member)
  await offer(page, 'pay')
  return page
}

/** Starts to ask about the page's next call. */
async function nextQuestion(page: Page): Promise<string> {
  const { call_id } = await page.next('tool/call')
  page.send({ type: 'tool/approval', call_id, state: 'asking' })
  await page.settled()
  return call_id
}

/** Allows a call that has already ended. */
async function allowTooLate(page: Page, call_id: string): Promise<void> {
  page.send({ type: 'tool/approval', call_id, state: 'allowed' })
  expect(await page.next('tool/cancel')).toEqual({ type: 'tool/cancel', call_id, reason: 'The call has ended' })
  expect(page.unread('tool/run')).toEqual([])
}

describe.each([
  ['SDK 1.32', connectV1, 'The client cancelled the call'],
  ['SDK 2.4 in the older era', () => connectV2('legacy'), 'The client cancelled the call'],
  ['SDK 2.4 in the newer era', () => connectV2('auto'), 'The client disconnected'],
])('a question of %s', (_, connect, reason) => {
  test('ends when the client times out, and a later approval has no effect', async () => {
    const page = await openAskingPage()
    const call = await connect()
    const gaveUp = expect(call({ timeout: 2_000 })).rejects.toThrow(/timed out/i)
    const call_id = await nextQuestion(page)
    await gaveUp
    expect(await page.next('tool/cancel')).toEqual({ type: 'tool/cancel', call_id, reason })
    await allowTooLate(page, call_id)
  })

  test('ends when the client cancels it, and the client’s other calls continue', async () => {
    const page = await openAskingPage()
    const call = await connect()
    const patience = new AbortController()
    const cancelled = expect(call({ signal: patience.signal })).rejects.toThrow()
    const first = await nextQuestion(page)
    const kept = call({})
    const second = await nextQuestion(page)
    patience.abort()
    await cancelled
    expect(await page.next('tool/cancel')).toEqual({ type: 'tool/cancel', call_id: first, reason })
    page.send({ type: 'tool/approval', call_id: second, state: 'allowed' })
    expect(await page.next('tool/run')).toEqual({ type: 'tool/run', call_id: second })
    page.send({ type: 'tool/result', call_id: second, result: 'paid' })
    expect((await kept).content).toEqual([{ type: 'text', text: 'paid' }])
  })
})

const clientProgram = `
  const [url, token, params] = process.argv.slice(1)
  const headers = { authorization: 'Bearer ' + token, 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  await fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: JSON.parse(params) }) })`

test('a question ends when the client’s process is killed', async () => {
  const page = await openAskingPage()
  const args = ['--input-type=module', '-e', clientProgram, endpoint().href, token, JSON.stringify(params)]
  const client = spawn(process.execPath, args)
  onTestFinished(() => void client.kill('SIGKILL'))
  const call_id = await nextQuestion(page)
  client.kill('SIGKILL')
  await once(client, 'exit')
  expect(await page.next('tool/cancel')).toMatchObject({ call_id, reason: 'The client disconnected' })
  await allowTooLate(page, call_id)
})

describe('notifications/cancelled', () => {
  const call = (id: number, own = token) => post(shop, own, makeMessage('2025-11-25', 'tools/call', params, id))
  const cancel = (requestId: unknown, own = token) => {
    const { headers } = makeMessage('2025-11-25', '')
    return post(shop, own, {
      headers,
      body: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } },
    })
  }

  test('returns an error for the cancelled request', async () => {
    const page = await openAskingPage()
    const answered = call(7)
    const call_id = await nextQuestion(page)
    expect(await cancel(7)).toMatchObject({ status: 202, body: null })
    expect(await page.next('tool/cancel')).toMatchObject({ call_id })
    const { result } = (await answered).body
    expect(result).toMatchObject({ isError: true })
    expect(JSON.parse(result.content[0].text)).toMatchObject({ code: 'CALL_CANCELLED' })
  })

  test.each([
    ['with another id', () => cancel(8)],
    ['with the id as text', () => cancel('7')],
    ['without an id', () => cancel(undefined)],
    ['with an object as id', () => cancel({ 7: 7 })],
    ['by another member', async () => cancel(7, await shop.tokenFor('admin@demo.test', 'demo'))],
    [
      'by another user in another organization',
      async () => cancel(7, await shop.tokenFor('admin@other.test', 'other')),
    ],
    [
      'by the same user in another organization',
      async () => cancel(7, await shop.tokenFor('member@demo.test', 'other')),
    ],
    ['by the same user with another token', async () => cancel(7, await shop.tokenFor('member@demo.test', 'demo'))],
  ])('%s is ignored', async (_, send) => {
    const page = await openAskingPage()
    const answered = call(7)
    const call_id = await nextQuestion(page)
    const ended = call(9)
    const endedId = await nextQuestion(page)
    expect((await send()).status).toBe(202)
    // A node waits for the others' counts, so only a later cancellation shows that this one had no effect.
    await cancel(9)
    expect(await page.next('tool/cancel')).toMatchObject({ call_id: endedId })
    await ended
    page.send({ type: 'tool/approval', call_id, state: 'allowed' })
    await page.next('tool/run')
    page.send({ type: 'tool/result', call_id, result: 'paid' })
    expect((await answered).body.result).toMatchObject({ content: [{ text: 'paid' }], isError: false })
    expect(page.unread('tool/cancel')).toEqual([])
  })

  test('that matches calls of two clients with the same token cancels neither', async () => {
    const page = await openAskingPage()
    const answered = [call(7), call(7)]
    const ids = [await nextQuestion(page), await nextQuestion(page)]
    await cancel(7)
    // After the first call finishes, the next notification matches only one call.
    page.send({ type: 'tool/result', call_id: ids[0] as string, result: 'paid' })
    await Promise.race(answered)
    expect(page.unread('tool/cancel')).toEqual([])
    await vi.waitFor(async () => {
      await cancel(7)
      await page.settled()
      expect(page.unread('tool/cancel')).toMatchObject([{ call_id: ids[1] }])
    })
    await Promise.all(answered)
  })

  test('works in a batch', async () => {
    const page = await openAskingPage()
    const answered = call(7)
    const call_id = await nextQuestion(page)
    const { headers } = makeMessage('2025-11-25', '')
    const body = [{ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }]
    await post(shop, token, { headers, body })
    expect(await page.next('tool/cancel')).toMatchObject({ call_id })
    await answered
  })
})
