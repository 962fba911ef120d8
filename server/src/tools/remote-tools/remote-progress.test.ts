import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import type { CallToolResult, ServerContext } from '@modelcontextprotocol/server'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type Delegation, startDelegation } from '../../../test/delegation.ts'
import type { HeldIdentity } from '../../visitors/end-users/held-identities.ts'

let world: Delegation
let me: Awaited<ReturnType<Delegation['caller']>>
beforeAll(async () => {
  world = await startDelegation()
  me = await world.caller()
})
afterAll(() => world.close())
afterEach(() => world.reset())

describe('a long call', () => {
  /** Registers a tool that sends progress and finishes when the test says so. */
  async function startWork() {
    await world.addConnector()
    await world.connect()
    await me.call('crm.whoami')
    const begun = Promise.withResolvers<ServerContext>()
    const ended = Promise.withResolvers<CallToolResult>()
    world.tools.more = (server) =>
      server.registerTool('work', {}, (context: ServerContext) => {
        begun.resolve(context)
        return ended.promise
      })
    const tell = async (params: object) => {
      const { mcpReq } = await begun.promise
      const { progressToken = '' } = (mcpReq._meta ?? {}) as { progressToken?: number }
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: 0, ...params } })
    }
    return { tell, finish: () => ended.resolve({ content: [{ type: 'text', text: 'done' }] }) }
  }

  test('reports progress before it ends', async () => {
    const { tell, finish } = await startWork()
    const told: object[] = []
    const progress = (step: object) => {
      told.push(step)
      if (told.length === 2) finish()
    }
    const answered = me.call('crm.work', {}, { progress })
    await tell({ progress: 1, total: 2, message: 'ha\u202Elf\nway' })
    await tell({ progress: 2 })
    expect((await answered).content[0]).toEqual({ type: 'text', text: 'done' })
    expect(told).toEqual([{ progress: 1, total: 2, message: 'half way' }, { progress: 2 }])
  })

  test('sends progress to an MCP client that requested it', async () => {
    const { tell, finish } = await startWork()
    const client = new Client({ name: 'test', version: '1.0.0' })
    const headers = { Authorization: `Bearer ${await world.tokenFor('member@demo.test', 'demo')}` }
    await client.connect(new StreamableHTTPClientTransport(new URL(`${world.url}/mcp`), { requestInit: { headers } }))
    onTestFinished(() => client.close())
    const told: object[] = []
    const onprogress = (step: object) => {
      told.push(step)
      finish()
    }
    const order = { name: 'hub_call_tool', arguments: { tool_name: 'crm.work' } }
    const answered = client.callTool(order, { onprogress })
    await tell({ progress: 1, message: 'half' })
    expect((await answered).content[0]).toEqual({ type: 'text', text: 'done' })
    expect(told).toEqual([{ progress: 1, message: 'half' }])
  })
})

describe.each(['2026-07-28', '2025-11-25'])('a streamed response of a server of %s', (version) => {
  interface Stream {
    response: ServerResponse
    closed: Promise<unknown>
    say(message: object): void
    id: number
    token: number | undefined
  }

  /** Starts a server whose responses to calls are controlled by the test. */
  async function startServer(): Promise<{ stream: Promise<Stream>; heard: string[] }> {
    const stream = Promise.withResolvers<Stream>()
    const heard: string[] = []
    const server = createServer(async (request, response) => {
      const { id, method, params } = JSON.parse(Buffer.concat(await request.toArray()).toString())
      heard.push(method)
      const answer = (result: object) =>
        response
          .setHeader('content-type', 'application/json')
          .end(JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } }))
      const capabilities = { tools: {} }
      const serverInfo = { name: 'raw', version: '1' }
      if (method === 'server/discover' && version === '2026-07-28')
        return answer({ supportedVersions: [version], capabilities, serverInfo, ttlMs: 0, cacheScope: 'private' })
      if (method === 'server/discover') return response.writeHead(400).end()
      if (method === 'initialize') return answer({ protocolVersion: version, capabilities, serverInfo })
      if (method !== 'tools/call') return response.writeHead(202).end()
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const say = (message: object) => response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
      const closed = once(response, 'close')
      stream.resolve({ response, closed, say, id, token: params._meta?.progressToken })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await world.addConnector({ name: 'raw', server_url: `${url}/mcp` })
    const { userId } = await world.connect()
    const { connectors } = (await world.asAdmin('GET', '/connectors')).body
    const organizationId = await world.organization('demo')
    const identity = await world.service.kv.get<HeldIdentity>(`identity:${organizationId}:${userId}`)
    const entry = {
      access_token: 'raw',
      expires_at: world.clock.now + 3600_000,
      scopes: ['mcp:tools:read', 'mcp:tools:call'],
      provider: identity?.provider,
    }
    await world.service.kv.set(`token:${organizationId}:${connectors[0].id}:${userId}`, entry, 3600)
    return { stream: stream.promise, heard }
  }

  const progressOf = ({ token }: Stream, progress: number) => ({
    method: 'notifications/progress',
    params: { progressToken: token, progress },
  })

  test('delivers progress, and the stream is closed afterwards', async () => {
    const { stream } = await startServer()
    const told = Promise.withResolvers<object>()
    const answered = me.call('raw.any', {}, { progress: told.resolve })
    const opened = await stream
    opened.say(progressOf(opened, 1))
    expect(await told.promise).toEqual({ progress: 1 })
    opened.say({ id: opened.id, result: { resultType: 'complete', content: [{ type: 'text', text: 'done' }] } })
    expect((await answered).content[0]).toEqual({ type: 'text', text: 'done' })
    await opened.closed
  })

  test('is closed at the server when the caller cancels', async () => {
    const { stream, heard } = await startServer()
    const giveUp = new AbortController()
    const answered = me.call('raw.any', {}, { signal: giveUp.signal, progress: () => giveUp.abort() })
    const opened = await stream
    opened.say(progressOf(opened, 1))
    await expect(answered).rejects.toMatchObject({ envelope: { code: 'CALL_CANCELLED', status: 499 } })
    await opened.closed
    if (version === '2025-11-25') await vi.waitFor(() => expect(heard).toContain('notifications/cancelled'))
  })

  test.each<[string, (stream: Stream) => void, RegExp]>([
    [
      'ends without a result',
      ({ response }) => response.end(),
      /^raw: The tool server closed the stream before it sent a result$/,
    ],
    ['breaks off', ({ response }) => response.destroy(), /^raw: The request to .* failed/],
    [
      'gets too large',
      (stream) => stream.say({ ...progressOf(stream, 2), padding: 'x'.repeat(1024 * 1024) }),
      /^raw: .* sent more than 1048576 bytes$/,
    ],
  ])('fails the call at once if it %s', async (_, spoil, message) => {
    const { stream } = await startServer()
    const told = Promise.withResolvers<object>()
    const answered = me.call('raw.any', {}, { progress: told.resolve })
    const opened = await stream
    opened.say(progressOf(opened, 1))
    await told.promise
    spoil(opened)
    await expect(answered).rejects.toMatchObject({
      envelope: {
        code: 'DELEGATION_FAILED',
        message: expect.stringMatching(message),
        data: { connector: 'raw', step: 'tools_call' },
      },
    })
    await opened.closed
  })
})
