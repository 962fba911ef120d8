import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import {
  eras,
  initializeParams,
  makeMessage,
  post,
  readPageResponse,
  type Version,
} from '../../../test/mcp-messages.ts'
import { createAccess } from '../../accounts/access/access.ts'
import { issueAccessToken } from '../../accounts/access/access-tokens.ts'
import { relayTool, type ToolCall } from '../../kernel/foundation/tool.ts'
import { createObserver } from '../../kernel/http/observation.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { createDispatcher } from './dispatcher.ts'
import { createEndpoint } from './endpoint.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const echo = (message: string, version: Version = '2026-07-28', id = 1) =>
  makeMessage(version, 'tools/call', { name: 'echo', arguments: { message } }, id)

describe('a token', () => {
  const challenge = (error: string) =>
    `Bearer ${error}scope="inlay", resource_metadata="http://localhost:8787/.well-known/oauth-protected-resource/mcp"`

  const issue = async (audience: string) => {
    const { body } = await app.request('GET', '/users/me', { token })
    const wanted = { userId: body.id, audience: [audience], lifetimeSeconds: 60 }
    return issueAccessToken(app.service, wanted)
  }

  test.each(eras)('is required (%s)', async (version) => {
    const { status, headers, body } = await post(app, undefined, echo('hi', version))
    expect({ status, challenge: headers.get('www-authenticate') }).toEqual({ status: 401, challenge: challenge('') })
    expect(body).toMatchObject({ id: null, error: { data: { code: 'UNAUTHORIZED', data: { code: 'AUTH_REQUIRED' } } } })
  })

  test('is required before anything else is checked', async () => {
    const answers = await Promise.all([
      app.fetch('/mcp'),
      app.fetch('/mcp', { method: 'DELETE' }),
      app.fetch('/mcp', { method: 'POST', body: '{' }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401])
  })

  test('for the MCP endpoint is accepted', async () => {
    expect(await post(app, await issue(resources('http://localhost:8787').mcp), echo('hi'))).toMatchObject({
      status: 200,
    })
  })

  test.each(['http://localhost:8787/api', 'https://elsewhere.example.com/mcp', 'client-id'])(
    'for %s is rejected',
    async (audience) => {
      const { status, headers } = await post(app, await issue(audience), echo('hi'))
      expect({ status, challenge: headers.get('www-authenticate') }).toEqual({
        status: 401,
        challenge: challenge('error="invalid_token", '),
      })
    },
  )

  test('in the URL is ignored', async () => {
    const { headers, body } = echo('hi')
    const response = await app.fetch(`/mcp?access_token=${token}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    expect(response.status).toBe(401)
  })
})

describe('the Host and Origin headers', () => {
  const send = (service: TestService, headers: Record<string, string>) =>
    post(service, token, { ...echo('hi'), headers: { ...echo('hi').headers, ...headers } })

  test.each([
    [200, { host: 'localhost:8787' }],
    [200, { host: 'LOCALHOST' }],
    [200, { host: '127.0.0.1:1' }],
    [200, { host: '[::1]:8787' }],
    [403, { host: 'evil.example.com' }],
    [403, { host: 'localhost.evil.example.com:8787' }],
    [403, { host: 'localhost@evil.example.com' }],
    [200, { origin: 'http://localhost:8787' }],
    [200, { origin: 'http://127.0.0.1:6274' }],
    [403, { origin: 'https://evil.example.com' }],
    [403, { origin: 'http://localhost.evil.example.com' }],
    [403, { origin: 'null' }],
    [403, { origin: '' }],
  ])('respond with %i for %j in development', async (expected, headers) => {
    expect((await send(app, headers)).status).toBe(expected)
  })

  test('respond with 403 before the token is checked, without a challenge', async () => {
    const { headers, body } = echo('hi')
    const answer = await post(app, undefined, { headers: { ...headers, host: 'evil.example.com' }, body })
    expect(answer.status).toBe(403)
    expect(answer.headers.get('www-authenticate')).toBeNull()
    expect(answer.body).toMatchObject({ id: null, error: { code: -32000 } })
  })

  test('must match the public URL in production', async () => {
    const production = await startTestService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
    const token = await production.tokenFor('admin@demo.test', 'demo')
    const status = async (headers: Record<string, string>) =>
      (await post(production, token, { ...echo('hi'), headers: { ...echo('hi').headers, ...headers } })).status
    try {
      expect(await status({ host: 'inlay.example.com' })).toBe(200)
      expect(await status({ host: 'inlay.example.com:443' })).toBe(200)
      expect(await status({ host: 'localhost' })).toBe(403)
      expect(await status({ origin: 'https://inlay.example.com' })).toBe(200)
      expect(await status({ origin: 'http://inlay.example.com' })).toBe(403)
      expect(await status({ origin: 'http://localhost' })).toBe(403)
    } finally {
      await production.close()
    }
  })
})

describe('a page of another origin', () => {
  const origin = 'http://localhost:6274'
  const preflight = (service: TestService, headers: Record<string, string> = {}) =>
    service.fetch('/mcp', {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type,mcp-protocol-version',
        ...headers,
      },
    })
  const send = (service: TestService, token: string | undefined, origin: string) =>
    post(service, token, { ...echo('hi'), headers: { ...echo('hi').headers, origin } })

  test('can send a preflight request without a token', async () => {
    const response = await preflight(app)
    expect(response.status).toBe(204)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': 'POST, GET, DELETE',
      'access-control-allow-headers': 'authorization,content-type,mcp-protocol-version',
      vary: 'Origin',
    })
    expect(response.headers.get('access-control-allow-credentials')).toBeNull()
  })

  test('can read results and the authentication challenge', async () => {
    const [refused, answered] = [await send(app, undefined, origin), await send(app, token, origin)]
    expect([refused.status, answered.status]).toEqual([401, 200])
    for (const { headers } of [refused, answered]) {
      expect(headers.get('access-control-allow-origin')).toBe(origin)
      expect(headers.get('access-control-expose-headers')).toContain('www-authenticate')
      expect(headers.get('vary')).toBe('Origin')
    }
  })

  test('can read the 405 of a GET request', async () => {
    const response = await app.fetch('/mcp', { headers: { origin, authorization: `Bearer ${token}` } })
    expect(response.status).toBe(405)
    expect(response.headers.get('access-control-allow-origin')).toBe(origin)
  })

  test('that isn’t allowed gets no CORS headers', async () => {
    const evil = 'https://evil.example.com'
    for (const { status, headers } of [await preflight(app, { origin: evil }), await send(app, token, evil)]) {
      expect(status).toBe(403)
      expect(headers.get('access-control-allow-origin')).toBeNull()
    }
  })

  test('needs a token for everything except a preflight', async () => {
    expect((await app.fetch('/mcp', { method: 'OPTIONS', headers: { origin } })).status).toBe(401)
  })

  test('can be allowed by the operator in production', async () => {
    const allowed = 'https://app.example.com'
    const production = await useTestService({
      INLAY_PUBLIC_URL: 'https://inlay.example.com',
      INLAY_MCP_ALLOWED_ORIGINS: `https://other.example.com, ${allowed}`,
    })
    const token = await production.tokenFor('admin@demo.test', 'demo')
    expect((await preflight(production, { origin: allowed })).headers.get('access-control-allow-origin')).toBe(allowed)
    expect(await send(production, token, allowed)).toMatchObject({ status: 200 })
    for (const foreign of [origin, 'https://app.example.com:8443', 'https://example.com']) {
      expect((await preflight(production, { origin: foreign })).status).toBe(403)
      expect((await send(production, token, foreign)).status).toBe(403)
    }
  })
})

test('a trailing slash in the URL makes no difference', async () => {
  const { headers, body } = echo('hi')
  const send = (more: Record<string, string>) =>
    app.fetch('/mcp/', { method: 'POST', headers: { ...headers, ...more }, body: JSON.stringify(body) })
  const refused = await send({})
  expect(refused.status).toBe(401)
  expect(refused.headers.get('www-authenticate')).toContain('/.well-known/oauth-protected-resource/mcp"')
  expect(await readPageResponse(await send({ authorization: `Bearer ${token}` }))).toMatchObject({
    status: 200,
    body: { result: { structuredContent: { message: 'Echo: hi' } } },
  })
})

test('three hundred concurrent requests with the same ID each get their own response', async () => {
  const other = await app.tokenFor('admin@other.test', 'other')
  const pairs = Array.from({ length: 150 }, async (_, index) => {
    const version = eras[index % 2] as Version
    const message = echo(`message ${index}`, version, 7)
    const whoAmI = makeMessage(version, 'tools/call', { name: 'verify_api_access' }, 7)
    const [said, known] = await Promise.all([post(app, token, message), post(app, index % 3 ? token : other, whoAmI)])
    const email = index % 3 ? 'admin@demo.test' : 'admin@other.test'
    expect(said.body).toMatchObject({ id: 7, result: { structuredContent: { message: `Echo: message ${index}` } } })
    expect(known.body).toMatchObject({ id: 7, result: { structuredContent: { user_email: email } } })
  })
  await Promise.all(pairs)
})

describe('a body', () => {
  test.each([
    ['over a MiB', `"${'x'.repeat(1024 * 1024)}"`, 413, -32000],
    ['nested deeply', '['.repeat(10_000), 400, -32700],
    ['with a key twice', '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', 400, -32700],
    ['with __proto__', '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"__proto__":{}}}', 400, -32700],
    ['with trailing garbage', '{"jsonrpc":"2.0","id":1,"method":"ping"}}', 400, -32700],
  ])('%s is refused', async (_, body, status, code) => {
    const answer = await post(app, token, { headers: echo('hi').headers, body })
    expect({ status: answer.status, code: answer.body.error.code }).toEqual({ status, code })
  })

  test('that is compressed is refused', async () => {
    const { headers, body } = echo('hi')
    expect(await post(app, token, { headers: { ...headers, 'content-encoding': 'gzip' }, body })).toMatchObject({
      status: 415,
    })
  })

  test('that is not UTF-8 is refused', async () => {
    const response = await app.fetch('/mcp', {
      method: 'POST',
      headers: { ...echo('hi').headers, authorization: `Bearer ${token}` },
      body: new Uint8Array([0x22, 0xff, 0x22]),
    })
    expect((await readPageResponse(response)).status).toBe(400)
  })
})

test('responds to any input with JSON-RPC and never with a 5xx status', async () => {
  const key = fc.constantFrom('jsonrpc', 'id', 'method', 'params', '_meta', 'name', 'arguments', 'x')
  const value = fc.oneof(
    fc.constantFrom(
      '2.0',
      'tools/call',
      'tools/list',
      'initialize',
      'skills/get',
      'resources/read',
      'echo',
      1,
      {},
      null,
    ),
    fc.jsonValue(),
  )
  const tree = fc.letrec((tie) => ({
    node: fc.oneof({ maxDepth: 4 }, value, fc.dictionary(key, tie('node')), fc.array(tie('node'), { maxLength: 3 })),
  })).node
  const headers = fc.record(
    {
      'mcp-protocol-version': fc.constantFrom('2026-07-28', '2025-11-25', 'x'),
      'mcp-method': fc.constantFrom('tools/call', 'tools/list'),
      'mcp-name': fc.constantFrom('echo', '=?base64?x?='),
    },
    { requiredKeys: [] },
  )
  await fc.assert(
    fc.asyncProperty(tree, headers, fc.boolean(), async (body, more, isMessage) => {
      const message = isMessage ? { jsonrpc: '2.0', id: 1, method: 'tools/call', params: body } : body
      const answer = await post(app, token, { headers: { 'content-type': 'application/json', ...more }, body: message })
      expect(answer.status).toBeLessThan(500)
      for (const one of [answer.body ?? []].flat()) expect(one).toMatchObject({ jsonrpc: '2.0' })
    }),
    { numRuns: 300 },
  )
})

test('a batch of the older era gets one array of results and errors, without its notifications', async () => {
  const bodies = [
    echo('one', '2025-11-25', 1).body,
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    makeMessage('2025-11-25', 'nothing', {}, 2).body,
    echo('three', '2025-11-25', 3).body,
  ]
  const { status, body } = await post(app, token, { headers: echo('hi', '2025-11-25').headers, body: bodies })
  expect(status).toBe(200)
  expect(body).toMatchObject([
    { id: 1, result: { structuredContent: { message: 'Echo: one' } } },
    { id: 2, error: { code: -32601 } },
    { id: 3, result: { structuredContent: { message: 'Echo: three' } } },
  ])
})

test('metrics name known tools and methods, but never names that callers choose', async () => {
  await post(app, token, echo('hi'))
  await post(app, token, makeMessage('2026-07-28', 'tools/call', { name: 'canary-tool' }))
  await post(app, token, makeMessage('2026-07-28', 'canary/method'))
  const { headers } = await post(app, token, makeMessage('2025-11-25', 'initialize', initializeParams))
  expect(headers.get('x-request-id')).toMatch(/^[\w-]{22}$/)
  const metrics = await (await app.fetch('/metrics')).text()
  expect(metrics).toContain('mcp:echo')
  expect(metrics).toContain('mcp:initialize')
  expect(metrics).not.toContain('canary')
})

test('a draining server still responds and closes the connection', async () => {
  const stopping = await startTestService()
  stopping.drain()
  const { status, headers } = await post(stopping, await stopping.tokenFor('admin@demo.test', 'demo'), echo('hi'))
  expect([status, headers.get('connection')]).toEqual([200, 'close'])
  await stopping.close()
})

/** The server's side of the connections to `serveTool`. */
const serverSockets = new Set<Socket>()

/** Starts an endpoint with one tool that runs `act`. */
async function serveTool(act: (call: ToolCall) => Promise<string>) {
  const slow = relayTool({
    name: 'slow',
    title: 'Slow',
    description: 'Takes its time.',
    access: 'org',
    input: z.strictObject({}),
    annotations: {},
    handler: async (_service, _caller, _input, call) => ({ content: [{ type: 'text', text: await act(call) }] }),
  })
  const offer = { info: { name: 'test', version: '1' }, instructions: '', capabilities: {}, tools: [slow], methods: {} }
  const endpoint = createEndpoint(
    app.service,
    await createAccess(app.service),
    await createDispatcher(app.service, offer),
  )
  const observe = createObserver(app.service)
  const server = createServer(
    (request, response) => void endpoint(request, response, observe(), { path: '/mcp', query: '' }),
  )
  serverSockets.clear()
  server.on('connection', (socket) => serverSockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close().closeAllConnections())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  return (version: Version, meta: object = {}, headers: Record<string, string> = {}) => {
    const message = makeMessage(version, 'tools/call', { name: 'slow', _meta: meta })
    const body = JSON.stringify(message.body)
    return { url, body, headers: { ...message.headers, ...headers, authorization: `Bearer ${token}` } }
  }
}

describe.each(eras)('a long call (%s)', (version) => {
  const report = async (call: ToolCall) => {
    call.progress({ progress: 1, total: 2, message: 'half' })
    call.progress({ progress: 2, total: 2 })
    return 'done'
  }

  test('sends progress to a client that requested it', async () => {
    const { url, ...init } = (await serveTool(report))(version, { progressToken: 'p' })
    const response = await fetch(url, { method: 'POST', ...init })
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    expect(response.headers.get('x-accel-buffering')).toBe('no')
    const events = (await response.text()).split('\n\n').filter(Boolean)
    const messages = events.map((event) => JSON.parse(event.replace('event: message\ndata: ', '')))
    const progress = (params: object) => ({ jsonrpc: '2.0', method: 'notifications/progress', params })
    expect(messages).toMatchObject([
      progress({ progressToken: 'p', progress: 1, total: 2, message: 'half' }),
      progress({ progressToken: 'p', progress: 2, total: 2 }),
      { jsonrpc: '2.0', id: 1, result: { content: [{ type: 'text', text: 'done' }] } },
    ])
  })

  test.each([
    ['didn’t request progress', {}, {}],
    ['doesn’t accept streams', { progressToken: 'p' }, { accept: 'application/json' }],
  ])('returns plain JSON to a client that %s', async (_, meta, headers) => {
    const { url, ...init } = (await serveTool(report))(version, meta, headers)
    const response = await fetch(url, { method: 'POST', ...init })
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(await response.json()).toMatchObject({ id: 1, result: { content: [{ text: 'done' }] } })
  })

  test('keeps only the latest progress for a client that doesn’t read, and sends it once it does', async () => {
    const message = 'x'.repeat(1_000)
    const last = 50_000
    let most = 0
    let resume = () => {}
    const make = await serveTool(async (call) => {
      for (let progress = 1; progress <= last; progress++) {
        call.progress({ progress, message })
        if (progress % 100) continue
        await new Promise(setImmediate)
        most = Math.max(most, ...[...serverSockets].map((socket) => socket.writableLength))
      }
      resume()
      await drained
      return 'done'
    })
    const { url, body, headers } = make(version, { progressToken: 'p' })
    let sawLast = () => {}
    const drained = new Promise<void>((resolve) => {
      sawLast = resolve
    })
    const client = request(url, { method: 'POST', headers })
    client.end(body)
    const [response] = (await once(client, 'response')) as [IncomingMessage]
    const text: string[] = []
    resume = () =>
      response.setEncoding('utf8').on('data', (part: string) => {
        text.push(part)
        if (text.slice(-2).join('').includes(`"progress":${last},`)) sawLast()
      })
    await once(response, 'end')
    expect(most).toBeLessThan(2 ** 20)
    const events = text.join('').match(/^data: .*$/gm) ?? []
    expect(events.length).toBeLessThan(last)
    expect(events.at(-1)).toContain('done')
  })

  test('that fails after sending progress ends the stream with the error', async () => {
    const fail = async (call: ToolCall) => {
      call.progress({ progress: 1 })
      throw new Error('canary-cause')
    }
    const { url, ...init } = (await serveTool(fail))(version, { progressToken: 1 })
    const { body } = await readPageResponse(await fetch(url, { method: 'POST', ...init }))
    expect(body).toMatchObject({ id: 1, result: { isError: true } })
    expect(JSON.stringify(body)).not.toContain('canary')
    expect(app.logged()).toContain('canary-cause')
  })

  test('is cancelled when the client disconnects', async () => {
    let cancelled = () => {}
    const wasCancelled = new Promise<void>((resolve) => {
      cancelled = resolve
    })
    const make = await serveTool(async ({ signal }) => {
      signal.addEventListener('abort', cancelled)
      client.destroy()
      await once(signal, 'abort')
      return 'nobody reads this'
    })
    const { url, body, headers } = make(version)
    const client = request(url, { method: 'POST', headers }).on('error', () => {})
    client.end(body)
    await wasCancelled
  })
})
