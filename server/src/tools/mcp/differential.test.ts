import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { SkillsExtension } from '@modelcontextprotocol/server/ext/skills'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { startTestService, type TestService } from '../../../test/harness.ts'
import {
  eras,
  initializeParams,
  type McpAnswer,
  makeMessage,
  post,
  readPageResponse,
} from '../../../test/mcp-messages.ts'
import { createAccess } from '../../accounts/access/access.ts'
import { tools } from '../../api.ts'
import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import type { Failure } from '../../kernel/lib/errors.ts'
import { skillMethods } from './skills.ts'

/**
 * Sends the same requests to Inlay and to an SDK server that offers the same tools. Accepted differences:
 * - To clients of the older era the SDK sends a stream of one event, Inlay plain JSON, which they must also accept.
 * - Errors have different messages and data.
 * - Inlay writes schemas without references and without the patterns that their formats imply.
 * - For invalid arguments the SDK returns a sentence, Inlay the envelope of the REST API.
 * - A missing required parameter can be an internal error in the SDK; in Inlay it's always a client error.
 * - For an unknown version of the older era the SDK omits the request's ID from the error; Inlay includes it.
 * - Inlay also rejects ambiguous JSON, such as duplicate keys.
 * - The SDK requires clients of the older era to accept streams; Inlay doesn't.
 */

let app: TestService
let token: string
let sdk: ReturnType<typeof createMcpHandler>

beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
  const access = await createAccess(app.service)
  const audience = resources(app.service.config.publicUrl).mcp
  const caller = (await access.check(`Bearer ${token}`, { access: 'org' }, audience)) as OrgCaller
  const offered = (await post(app, token, makeMessage('2025-11-25', 'initialize', initializeParams))).body.result
  sdk = createMcpHandler(() => sdkServer(app, caller, offered))
})
afterAll(() => app.close())

/** Serves the results of our functions with the SDK. */
function sdkServer(app: TestService, caller: OrgCaller, offered: { serverInfo: never; instructions: string }) {
  const server = new McpServer(offered.serverInfo, {
    instructions: offered.instructions,
    capabilities: { tools: { listChanged: false }, resources: { listChanged: false } },
    cacheHints: {
      'tools/list': { ttlMs: 60_000, cacheScope: 'private' },
      'server/discover': { ttlMs: 60_000, cacheScope: 'private' },
    },
  })
  const call = { signal: new AbortController().signal, progress() {} }
  for (const { name, title, description, input, output, annotations, handler } of tools) {
    const config = {
      title,
      description,
      inputSchema: input as z.ZodObject,
      annotations: { title, ...annotations },
      ...(output && { outputSchema: output as z.ZodObject }),
    }
    server.registerTool(name, config, async (args: Record<string, unknown>) => {
      try {
        const value = (await handler(app.service, caller, args, call)) as Record<string, unknown>
        return { content: [{ type: 'text', text: JSON.stringify(value) }], structuredContent: value }
      } catch (error) {
        const { envelope } = error as Failure
        return { content: [{ type: 'text', text: JSON.stringify(envelope) }], isError: true }
      }
    })
  }
  const source = {
    list: (params: object) => ask<never>('skills/list', params),
    get: async (uri: string) => (await ask<{ skill: never }>('skills/get', { uri }).catch(() => undefined))?.skill,
    async read(uri: string) {
      const found = await ask<{ contents: [never] }>('resources/read', { uri }).catch(() => undefined)
      return found?.contents[0]
    },
    listResources: async () => (await ask<{ resources: never[] }>('resources/list', {})).resources,
  }
  const ask = <T>(method: string, params: object) =>
    skillMethods[method]?.handler(app.service, caller, params as never) as Promise<T>
  new SkillsExtension({ source }).attach(server)
  return server
}

/** Removes the accepted differences. */
function comparable({ status, headers, body }: McpAnswer) {
  return {
    status,
    allow: headers.get('allow'),
    session: headers.get('mcp-session-id'),
    body: Array.isArray(body) ? body.map(simplify) : simplify(body),
  }
}

function simplify(body: McpAnswer['body']): unknown {
  if (!body) return body
  const { error, result, ...rest } = body
  if (error?.code === -32000) return { error: { code: -32000 } }
  if (error) return { ...rest, error: { code: error.code, ...(error.code === -32022 && { data: error.data }) } }
  if (result.tools) {
    return {
      ...rest,
      result: { ...result, tools: result.tools.map(withoutSchemas) },
    }
  }
  return { ...rest, result }
}

const withoutSchemas = ({ inputSchema, outputSchema, ...tool }: Record<string, unknown>) => tool

async function compare(
  message: { headers: Record<string, string>; body: unknown },
  method = 'POST',
  adapt = (body: McpAnswer['body']) => body,
) {
  const body = typeof message.body === 'string' ? message.body : JSON.stringify(message.body)
  const init = { method, headers: message.headers, ...(method === 'POST' && { body }) }
  const authorization = `Bearer ${token}`
  const ours = await app.fetch('/mcp', { ...init, headers: { ...message.headers, authorization } })
  const theirs = await sdk.fetch(new Request('http://localhost/mcp', init))
  const answer = await readPageResponse(ours)
  const left = comparable({ ...answer, body: adapt(answer.body) })
  const right = comparable(await readPageResponse(theirs))
  expect(left).toEqual(right)
  return left
}

const echo = { name: 'echo', arguments: { message: 'hi' } }

describe('headers and _meta of 2026-07-28', () => {
  const versionKey = 'io.modelcontextprotocol/protocolVersion'
  const message = (
    headers: Record<string, string | undefined>,
    meta: Record<string, unknown> = {},
    params: object = echo,
  ) => {
    const made = makeMessage('2026-07-28', 'tools/call', { ...params, _meta: meta })
    const merged = Object.entries({ ...made.headers, ...headers }).filter(([, value]) => value !== undefined)
    return { body: made.body, headers: Object.fromEntries(merged) as Record<string, string> }
  }

  test.each([
    [{}, {}],
    [{ 'mcp-protocol-version': undefined }, {}],
    [{ 'mcp-protocol-version': '2025-11-25' }, {}],
    [{ 'mcp-protocol-version': ' 2026-07-28 ' }, {}],
    [{ 'mcp-method': undefined }, {}],
    [{ 'mcp-method': 'tools/list' }, {}],
    [{ 'mcp-name': undefined }, {}],
    [{ 'mcp-name': 'ping' }, {}],
    [{ 'mcp-name': ' echo ' }, {}],
    [{ 'mcp-name': `=?base64?${Buffer.from('echo').toString('base64')}?=` }, {}],
    [{ 'mcp-name': '=?base64?!?=' }, {}],
    [{ 'mcp-session-id': 'x', 'last-event-id': '1' }, {}],
    [{}, { [versionKey]: '2027-01-01' }],
    [{ 'mcp-protocol-version': '2027-01-01' }, { [versionKey]: '2027-01-01' }],
    [{ 'mcp-protocol-version': '2025-11-25' }, { [versionKey]: '2025-11-25' }],
    [{}, { [versionKey]: 1 }],
    [{}, { [versionKey]: undefined }],
    [{}, { 'io.modelcontextprotocol/clientCapabilities': undefined }],
    [{}, { 'io.modelcontextprotocol/clientCapabilities': 'all' }],
    [{}, { 'io.modelcontextprotocol/clientInfo': undefined }],
    [{}, { 'io.modelcontextprotocol/clientInfo': {} }],
    [{}, { progressToken: 'p' }],
    [{}, { progressToken: {} }],
    [{ accept: 'application/json' }, { progressToken: 'p' }],
  ])('%j %j', async (headers, meta) => {
    await compare(message(headers, meta))
  })

  test.each([{ name: 1 }, {}])('an invalid name: %j', async (params) => {
    await compare(message({ 'mcp-name': 'echo' }, {}, params))
  })

  test('a notification with another method in its header', async () => {
    const { headers, body } = message({ 'mcp-method': 'notifications/other' })
    const { id, ...notification } = { ...body, method: 'notifications/initialized' }
    await compare({ headers, body: notification })
  })

  test('initialize with a header of the newer era', async () => {
    const made = makeMessage('2025-11-25', 'initialize', initializeParams)
    await compare({ ...made, headers: { ...made.headers, 'mcp-protocol-version': '2026-07-28' } })
  })
})

describe('headers of 2025-11-25', () => {
  test.each(['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07', '2023-01-01', 'x'])(
    'MCP-Protocol-Version: %s',
    async (version) => {
      const { body, headers } = makeMessage('2025-11-25', 'tools/call', echo)
      await compare({ body, headers: { ...headers, 'mcp-protocol-version': version } })
    },
  )

  test('no MCP-Protocol-Version', async () => {
    const { body, headers } = makeMessage('2025-11-25', 'tools/call', echo)
    const { 'mcp-protocol-version': _, ...rest } = headers
    await compare({ body, headers: rest })
  })
})

describe('batches', () => {
  const request = (id: number) => makeMessage('2025-11-25', 'ping', {}, id).body
  const { id, ...notification } = makeMessage('2025-11-25', 'notifications/initialized').body
  const modern = makeMessage('2026-07-28', 'tools/list').body

  test.each([
    ['one request', [request(1)]],
    ['a notification', [notification]],
    ['something invalid', [request(1), 1]],
    ['a request of the newer era', [request(1), modern]],
    ['initialize and another request', [makeMessage('2025-11-25', 'initialize', initializeParams).body, request(2)]],
    ['too many', Array.from({ length: 101 }, (_, id) => request(id))],
  ])('%s', async (_, body) => {
    // The SDK streams results one by one, so a single result isn't in an array.
    const unwrap = (ours: McpAnswer['body']) => (Array.isArray(ours) ? ours[0] : ours)
    await compare({ headers: makeMessage('2025-11-25', 'ping').headers, body }, 'POST', unwrap)
  })
})

describe.each(eras)('skills in %s', (version) => {
  const uri = 'skill://builtin/skill-creator-webmcp/SKILL.md'

  test.each([
    ['resources/list', {}],
    ['resources/read', { uri }],
    ['resources/read', { uri: 'skill://builtin/nothing/SKILL.md' }],
    ['skills/list', {}],
    ['skills/get', { uri }],
    ['skills/get', { uri: 'skill://builtin/nothing/SKILL.md' }],
    ['skills/get', {}],
    ['resources/directory/read', { uri: 'skill://builtin' }],
  ])('%s %j', async (method, params) => {
    await compare(makeMessage(version, method, params))
  })
})

describe.each(eras)('requests of %s', (version) => {
  test.each([
    ['tools/list', {}],
    ['tools/list', { cursor: 'whatever' }],
    ['tools/call', { name: 'echo', arguments: { message: 'hi' } }],
    ['tools/call', { name: 'get_profile' }],
    ['tools/call', { name: 'get_profile', arguments: {} }],
    ['tools/call', { name: 'list_members', arguments: {} }],
    ['tools/call', { name: 'get_organization', arguments: { id: 'nobody' } }],
    ['tools/call', { name: 'get_billing_url', arguments: { type: 'checkout', product_id: 'none' } }],
    ['tools/call', { name: 'get_subscription', arguments: { detail: 'full' } }],
    ['tools/call', { name: 'nothing', arguments: {} }],
    ['tools/call', { name: '__proto__', arguments: {} }],
    ['tools/call', { name: 'echo', arguments: 'text' }],
    ['tools/call', { name: 'echo', arguments: null }],
    ['tools/call', { name: 'echo', arguments: [] }],
    ['tools/call', { name: 1, arguments: {} }],
    ['tools/call', {}],
    ['initialize', initializeParams],
    ['initialize', { ...initializeParams, protocolVersion: '2025-06-18' }],
    ['initialize', { ...initializeParams, protocolVersion: '1999-01-01' }],
    ['ping', {}],
    ['server/discover', {}],
    ['prompts/list', {}],
    ['prompts/get', { name: 'x' }],
    ['completion/complete', {}],
    ['logging/setLevel', { level: 'debug' }],
    ['resources/subscribe', { uri: 'skill://x' }],
    ['tasks/get', { taskId: 'x' }],
    ['sampling/createMessage', {}],
    ['constructor', {}],
    ['nothing/at-all', {}],
  ])('%s %j', async (method, params) => {
    await compare(makeMessage(version, method, params))
  })

  test('with a string as ID', async () => {
    const message = makeMessage(version, 'tools/call', { name: 'echo', arguments: { message: 'hi' } })
    await compare({ ...message, body: { ...message.body, id: 'é"\n' } })
  })

  test('without params', async () => {
    const message = makeMessage(version, 'tools/list')
    await compare({ ...message, body: { jsonrpc: '2.0', id: 1, method: 'tools/list' } })
  })

  test.each(['notifications/initialized', 'notifications/cancelled', 'notifications/nothing'])(
    'the notification %s',
    async (method) => {
      const { headers, body } = makeMessage(version, method, { requestId: 1 })
      const { id, ...notification } = body
      expect(await compare({ headers, body: notification })).toMatchObject({ status: 202, body: null })
    },
  )

  test.each([
    ['invalid JSON', '{'],
    ['an empty body', ''],
    ['null', 'null'],
    ['a number', '1'],
    ['a string', '"x"'],
    ['an empty object', '{}'],
    ['another version of JSON-RPC', '{"jsonrpc":"1.0","id":1,"method":"ping"}'],
    ['no version of JSON-RPC', '{"id":1,"method":"ping"}'],
    ['an id that is null', '{"jsonrpc":"2.0","id":null,"method":"ping"}'],
    ['an id that is a fraction', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}'],
    ['an id that is an object', '{"jsonrpc":"2.0","id":{},"method":"ping"}'],
    ['a method that is a number', '{"jsonrpc":"2.0","id":1,"method":1}'],
    ['params that are an array', '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}'],
    ['params that are null', '{"jsonrpc":"2.0","id":1,"method":"ping","params":null}'],
    ['an unknown member', '{"jsonrpc":"2.0","id":1,"method":"ping","more":1}'],
    ['a result', '{"jsonrpc":"2.0","id":1,"result":{}}'],
    ['an error', '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}'],
    ['a result and an error', '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}'],
    ['an empty batch', '[]'],
  ])('%s', async (_, body) => {
    await compare({ headers: makeMessage(version, 'ping').headers, body })
  })

  test.each(['text/plain', 'application/json; charset=utf-8', 'application/jsonp', 'APPLICATION/JSON', ''])(
    'the content type "%s"',
    async (type) => {
      const message = makeMessage(version, 'tools/call', { name: 'echo', arguments: { message: 'hi' } })
      await compare({ ...message, headers: { ...message.headers, 'content-type': type } })
    },
  )

  test.each(['GET', 'DELETE', 'PUT', 'PATCH'])('%s', async (method) => {
    expect(await compare(makeMessage(version, 'ping'), method)).toMatchObject({ status: 405, allow: 'POST' })
  })
})
