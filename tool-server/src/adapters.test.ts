import { createServer, request as httpRequest, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import express from 'express'
import { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Fixture, hub, jwtBearer, resource, setUp } from '../test/fixture.ts'
import type { Caller } from './access-tokens.ts'
import * as forExpress from './express.ts'
import * as forHono from './hono.ts'
import { authorize, serve } from './node.ts'
import type { ToolServer } from './tool-server.ts'

/** The same application on each framework: the tool server's own paths, a page for callers, and a public page. */
const applications: Record<string, (server: ToolServer) => RequestListener> = {
  'node:http': (server) => async (request, response) => {
    if (await serve(server, request, response)) return
    if (request.url !== '/call') return void response.end('open to all')
    const caller = await authorize(server, request, response, ['mcp:tools:call'])
    if (caller) response.end(`called by ${caller.subject}`)
  },
  Hono: (server) => {
    const app = new Hono<{ Variables: { caller: Caller } }>()
    app.use(forHono.toolServerRoutes(server))
    app.get('/call', forHono.requireCaller(server, 'mcp:tools:call'), (context) =>
      context.text(`called by ${context.get('caller').subject}`),
    )
    app.all('*', (context) => context.text('open to all'))
    return getRequestListener(app.fetch)
  },
  Express: (server) => {
    const app = express()
    app.use(forExpress.toolServerRoutes(server))
    app.get('/call', forExpress.requireCaller(server, 'mcp:tools:call'), (_request, response) => {
      response.send(`called by ${response.locals.caller.subject}`)
    })
    app.use((_request, response) => void response.send('open to all'))
    return app
  },
  'Express, after its form parser': (server) => {
    const app = express()
    app.use(express.urlencoded({ extended: true }), express.json())
    return app.use(applications.Express?.(server) as express.RequestHandler)
  },
}

interface Scenario {
  path: string
  post?: (fixture: Fixture) => Promise<string>
  headers?: Record<string, string>
  /** The request has an access token with this scope. */
  scope?: string
  status: number
  body: string | object
}

const form = async (fixture: Fixture, changes: Record<string, string> = {}) =>
  new URLSearchParams({
    grant_type: jwtBearer,
    assertion: await fixture.provider.sign(fixture.claims()),
    client_id: hub.clientId,
    client_secret: hub.clientSecret,
    ...changes,
  }).toString()

const token = { access_token: expect.any(String), token_type: 'Bearer', expires_in: 1800 }
const scenarios: Record<string, Scenario> = {
  'issues a token': { path: '/oauth/token', post: form, status: 200, body: token },
  'ignores the query of a token request': { path: '/oauth/token?a=b', post: form, status: 200, body: token },
  'refuses an invalid assertion': {
    path: '/oauth/token',
    post: (fixture) => form(fixture, { assertion: 'x' }),
    status: 400,
    body: '{"error":"invalid_grant"}',
  },
  'refuses another grant type': {
    path: '/oauth/token',
    post: (fixture) => form(fixture, { grant_type: 'password' }),
    status: 400,
    body: '{"error":"unsupported_grant_type"}',
  },
  'refuses repeated fields': {
    path: '/oauth/token',
    post: async (fixture) => `${await form(fixture)}&client_id=${hub.clientId}`,
    status: 400,
    body: '{"error":"unsupported_grant_type"}',
  },
  'refuses JSON': {
    path: '/oauth/token',
    post: async () => '{"grant_type":"x"}',
    headers: { 'content-type': 'application/json' },
    status: 400,
    body: '{"error":"unsupported_grant_type"}',
  },
  'refuses a form that is too long': {
    path: '/oauth/token',
    post: (fixture) => form(fixture, { padding: 'x'.repeat(33 * 1024) }),
    status: 400,
    body: '{"error":"unsupported_grant_type"}',
  },
  'only issues tokens to POST requests': { path: '/oauth/token', status: 405, body: '' },
  'serves its metadata': {
    path: '/.well-known/oauth-protected-resource/mcp',
    status: 200,
    body: expect.objectContaining({ resource }),
  },
  'accepts a caller with the required scope': {
    path: '/call',
    scope: 'mcp:tools:call',
    status: 200,
    body: 'called by ann',
  },
  'refuses a caller without the required scope': {
    path: '/call',
    scope: 'mcp:tools:read',
    status: 403,
    body: '{"error":"insufficient_scope"}',
  },
  'refuses requests without a token': { path: '/call', status: 401, body: '{"error":"invalid_token"}' },
  'leaves other paths to the application': { path: '/anything', status: 200, body: 'open to all' },
}

describe.each(Object.entries(applications))('%s', (_, listen) => {
  let fixture: Fixture
  const server = createServer((request, response) => listen(fixture.server)(request, response))
  let origin: string
  beforeAll(async () => {
    fixture = await setUp()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(async () => {
    server.close()
    await fixture[Symbol.asyncDispose]()
  })

  async function earnToken(scope: string): Promise<string> {
    const assertion = await fixture.provider.sign(fixture.claims({ scope }))
    const body = new URLSearchParams(await form(fixture, { assertion }))
    const response = await fetch(`${origin}/oauth/token`, { method: 'POST', body })
    return ((await response.json()) as { access_token: string }).access_token
  }

  test.each(Object.entries(scenarios))('%s', async (_title, { path, post, headers, scope, status, body }) => {
    const response = await fetch(`${origin}${path}`, {
      method: post ? 'POST' : 'GET',
      headers: {
        ...(post && { 'content-type': 'application/x-www-form-urlencoded' }),
        ...(scope && { authorization: `Bearer ${await earnToken(scope)}` }),
        ...headers,
      },
      body: (await post?.(fixture)) ?? null,
    })
    const text = await response.text()
    expect(response.status).toBe(status)
    expect(typeof body === 'string' ? text : JSON.parse(text)).toEqual(body)
  })

  test('responds with a challenge that has the metadata URL and the required scope', async () => {
    const { headers } = await fetch(`${origin}/call`)
    const metadata = 'https://tools.example.com/.well-known/oauth-protected-resource/mcp'
    expect(headers.get('www-authenticate')).toBe(`Bearer resource_metadata="${metadata}", scope="mcp:tools:call"`)
  })

  test('keeps serving after a client disconnects while sending a form', async () => {
    const asking = httpRequest(`${origin}/oauth/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', 'content-length': '1000' },
    })
    const arrived = new Promise<IncomingMessage>((resolve) => server.once('request', resolve))
    asking.on('error', () => undefined)
    asking.write('grant_type=')
    const closed = new Promise((resolve) => arrived.then((request) => request.once('close', resolve)))
    await arrived
    asking.destroy()
    await closed
    expect((await fetch(`${origin}/anything`)).status).toBe(200)
  })
})
