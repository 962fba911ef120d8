import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { callerFor } from '../../../test/shop.ts'
import { startThirdParty, type ThirdParty } from '../../../test/third-party.ts'
import { findUserByEmail } from '../../accounts/users/local-accounts.ts'
import type { ConsentedToken } from './consent.ts'

/** A third party that answers as a test wants, and a server that must not be asked anything. */

let app: HttpService
let third: ThirdParty
let connectorId = ''
const member = 'member@demo.test'
const asked: string[] = []
const bystander = createServer(async (request, response) => {
  asked.push(`${request.method} ${request.url} ${Buffer.concat(await request.toArray())}`)
  response.setHeader('content-type', 'application/json').end('{}')
})
let elsewhere = ''

beforeAll(async () => {
  await new Promise<void>((resolve) => bystander.listen(0, '127.0.0.1', resolve))
  elsewhere = `http://127.0.0.1:${(bystander.address() as AddressInfo).port}`
  app = await startHttpService()
  third = await startThirdParty()
})
afterAll(async () => {
  await app.close()
  await third.stop()
  bystander.closeAllConnections()
  bystander.close()
})
beforeEach(async () => {
  third.reset()
  asked.length = 0
  await addConnector()
})

const asAdmin = async (method: string, path: string, body?: unknown) =>
  app.request(method, path, { token: await app.tokenFor('admin@demo.test', 'demo'), body })

async function addConnector(changes: object = {}): Promise<void> {
  const { connectors } = (await asAdmin('GET', '/connectors')).body
  for (const { id } of connectors) await asAdmin('DELETE', `/connectors/${id}`)
  const body = { name: 'third', kind: 'oauth', server_url: third.serverUrl, ...changes }
  connectorId = (await asAdmin('POST', '/connectors', body)).body.id
}

async function tokenKey(): Promise<string> {
  const user = await findUserByEmail(app.service, member)
  return `token:${await app.organization('demo')}:${connectorId}:${user?.id}`
}
const stored = async () => app.service.kv.get<ConsentedToken>(await tokenKey())

async function openPage(): Promise<Browser> {
  const ours = await new Browser(app.url).open(`/connect/${connectorId}`)
  return ours.press(member)
}

/** Goes as far as the third party lets the member. `change` changes where it sends the browser. */
async function connect(
  change: (back: URL) => void = () => undefined,
  button = 'Connect',
): Promise<{ ours: Browser; hasLeft: boolean }> {
  const ours = await (await openPage()).press(button)
  const [, host] = ours.text.match(/Continue to (\S+)\?/) ?? []
  if (host === undefined) return { ours, hasLeft: false }
  await ours.follow(`Continue to ${host}`)
  const back = third.decide(ours.left?.href ?? '')
  change(back)
  await ours.open(back)
  return { ours, hasLeft: true }
}

/** What each refusal has in common. */
async function expectRefused(ours: Browser): Promise<void> {
  expect(ours.page?.status, ours.text).toBe(400)
  expect(ours.text).toContain('Connect third?')
  expect(ours.html).toContain('role="alert"')
  expect(ours.html.length, 'a page, not what the third party sent').toBeLessThan(20_000)
  expect(ours.html).not.toContain('<script')
  expect(ours.html).not.toContain('<img')
  expect(await stored()).toBeUndefined()
  expect(asked).toEqual([])
}

const json = (response: ServerResponse, body: unknown, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
const tooMuch = (response: ServerResponse) => json(response, { a: 'x'.repeat(2 * 1024 * 1024) })
const to = (status: number) => (response: ServerResponse) =>
  response.writeHead(status, { location: `${elsewhere}/moved` }).end()
const long = `https://x.example/${'x'.repeat(70_000)}`
const never = () => undefined
const markup = '<script>alert(1)</script><img src=//x.example>'
const serverDocument = '/.well-known/oauth-authorization-server'

test('a third party that behaves connects the account', async () => {
  const { ours } = await connect()
  expect(ours.text).toContain('You’re connected to third')
  expect(await stored()).toMatchObject({ issuer: third.url })
})

type Change = () => Partial<ThirdParty>
const at =
  (path: string, answer: (response: ServerResponse) => unknown): Change =>
  () => ({ instead: { [path]: answer } })
const resource =
  (fields: () => Record<string, unknown>): Change =>
  () => ({ resource: fields() })
const metadata =
  (fields: () => Record<string, unknown>): Change =>
  () => ({ metadata: fields() })
const client =
  (fields: Record<string, unknown>): Change =>
  () => ({ client: fields })
const noMetadata = at(serverDocument, (response) => response.writeHead(404).end())
const tokens =
  (fields: Record<string, unknown>): Change =>
  () => ({ tokens: fields })

test.each<[string, Change]>([
  ['names a script as its authorization server', resource(() => ({ authorization_servers: ['javascript:alert(1)'] }))],
  ['redirects for its metadata', at(serverDocument, to(302))],
  ['redirects permanently for its metadata', at(serverDocument, to(308))],
  ['publishes no metadata', noMetadata],
])('a third party that %s is asked at its own address, and nobody else', async (_, change) => {
  Object.assign(third, change())
  const { ours } = await connect()
  expect(ours.text).toContain('You’re connected to third')
  expect(third.redeemed).toHaveLength(1)
  expect(asked).toEqual([])
})

describe('a third party doesn’t get the member to leave if', () => {
  test.each<[string, Change]>([
    ['its metadata is for another resource', resource(() => ({ resource: `${elsewhere}/mcp` }))],
    ['its authorization server is a file', resource(() => ({ authorization_servers: ['file:///etc/passwd'] }))],
    ['its metadata has a foreign issuer', metadata(() => ({ issuer: elsewhere }))],
    ['its issuer differs in a slash and a name', metadata(() => ({ issuer: `${third.url}/tenant` }))],
    ['its metadata has no issuer', metadata(() => ({ issuer: undefined }))],
    ['its metadata is longer than what is stored', metadata(() => ({ service_documentation: long }))],
    ['its metadata is too large', at(serverDocument, tooMuch)],
    ['its metadata never comes', at(serverDocument, never)],
    ['its metadata is a page', at(serverDocument, (response) => response.end(markup))],
    ['its metadata is a list', at(serverDocument, (response) => json(response, []))],
    ['its metadata is null', at(serverDocument, (response) => json(response, null))],
    ['its metadata fails with markup', at(serverDocument, (response) => response.writeHead(500).end(markup))],
    ['its endpoints are numbers', metadata(() => ({ authorization_endpoint: 7, token_endpoint: 7 }))],
    ['its authorization endpoint is data', metadata(() => ({ authorization_endpoint: `data:text/html,${markup}` }))],
    ['it has no way to register', metadata(() => ({ registration_endpoint: undefined }))],
    ['it doesn’t support PKCE with S256', metadata(() => ({ code_challenge_methods_supported: ['plain'] }))],
    ['it only supports the implicit flow', metadata(() => ({ response_types_supported: ['token'] }))],
    ['the registration is a redirect', at('/register', to(307))],
    ['the registration is refused with markup', at('/register', (response) => response.writeHead(400).end(markup))],
    ['the registration is too large', at('/register', tooMuch)],
    ['the registered client’s ID is longer than what is stored', client({ client_id: long })],
    ['the registered client has no ID', client({ client_id: undefined })],
    ['the registered client’s ID is an object', client({ client_id: {} })],
  ])('%s', async (_, change) => {
    Object.assign(third, change())
    const { ours, hasLeft } = await connect()
    expect(hasLeft, ours.text).toBe(false)
    await expectRefused(ours)
    expect(third.redeemed).toEqual([])
  })
})

describe('a redirect back to Inlay redeems no code, and connects nothing, if', () => {
  const set = (name: string, value: () => string) => (back: URL) => back.searchParams.set(name, value())
  test.each<[string, Change, (back: URL) => void]>([
    ['another issuer answered', () => ({}), set('iss', () => elsewhere)],
    [
      'another issuer answered, and this one doesn’t promise to name itself',
      metadata(() => ({ authorization_response_iss_parameter_supported: undefined })),
      set('iss', () => elsewhere),
    ],
    ['another issuer answered, and this one publishes no metadata', noMetadata, set('iss', () => elsewhere)],
    [
      'another issuer answered, and the metadata of this one is elsewhere',
      at(serverDocument, to(302)),
      set('iss', () => elsewhere),
    ],
    ['its issuer has a slash more', () => ({}), set('iss', () => `${third.url}/`)],
    ['its issuer is empty', () => ({}), set('iss', () => '')],
    [
      'no issuer answered, although this one promised to name itself',
      () => ({}),
      (back) => back.searchParams.delete('iss'),
    ],
    ['there is no code', () => ({}), (back) => back.searchParams.delete('code')],
    [
      'it is an error with markup',
      () => ({}),
      (back) => {
        back.searchParams.delete('code')
        back.searchParams.set('error', 'access_denied')
        back.searchParams.set('error_description', markup)
      },
    ],
  ])('%s', async (_, change, spoil) => {
    Object.assign(third, change())
    const { ours, hasLeft } = await connect(spoil)
    expect(hasLeft, ours.text).toBe(true)
    await expectRefused(ours)
    expect(third.redeemed).toEqual([])
  })
})

describe('a token response connects nothing if', () => {
  const error = (body: unknown, status = 400) => at('/token', (response) => json(response, body, status))
  test.each<[string, Change]>([
    ['it is a redirect to another host', at('/token', to(302))],
    ['it is a redirect that keeps the request', at('/token', to(307))],
    ['it is a permanent redirect that keeps the request', at('/token', to(308))],
    ['it is too large', at('/token', tooMuch)],
    ['it never comes', at('/token', never)],
    ['the connection breaks', at('/token', (response) => response.destroy())],
    ['it is a page', at('/token', (response) => response.end(markup))],
    ['it is an error with markup', error({ error: 'invalid_request', error_description: markup })],
    ['it is an endless error', error({ error: 'x', error_description: 'y'.repeat(900_000) })],
    ['it is an error without OAuth', at('/token', (response) => response.writeHead(500).end(markup.repeat(9_000)))],
    ['it is an error that isn’t text', error({ error: { toString: markup } })],
    ['it refuses the code', error({ error: 'invalid_grant' })],
    ['it refuses the client', error({ error: 'invalid_client' }, 401)],
    ['it is a success with an error', error({ error: 'invalid_request', error_description: markup }, 200)],
    ['it has no token', tokens({ access_token: undefined })],
    ['its token is an object', tokens({ access_token: { a: 1 } })],
    ['its token is empty', tokens({ access_token: '' })],
    ['its token would add a header', tokens({ access_token: 'one\r\nx-forged: yes' })],
    ['its token has characters beyond ASCII', tokens({ access_token: 'zoë' })],
    ['its token is longer than what is stored', tokens({ access_token: long })],
    ['its scope is longer than what is stored', tokens({ scope: long })],
    ['its scope is a list', tokens({ scope: ['a'] })],
  ])('%s', async (_, change) => {
    Object.assign(third, change())
    const { ours, hasLeft } = await connect()
    expect(hasLeft, ours.text).toBe(true)
    await expectRefused(ours)
  })
})

test('a member can leave for a third party 20 times in ten minutes, because each time stores its metadata', async () => {
  const ours = await openPage()
  for (let times = 0; times < 20; times += 1) {
    await ours.press('Connect')
    expect(ours.text).toContain('Continue to')
    await ours.follow('Back')
  }
  await ours.press('Connect')
  await expectRefused(ours)
  expect(ours.text).toContain('Try again in ten minutes')
})

describe('after the member has connected', () => {
  const expire = async () => app.service.kv.set(await tokenKey(), { ...(await stored()), expires_at: 0 }, 3600)
  const callTool = async () => (await callerFor(app, member, 'demo')).call('third.any')

  test('the refresh token and a secret go to no other authorization server', async () => {
    await addConnector({ client_id: 'inlay-there', client_secret: 'secret-of-inlay-there' })
    await connect()
    const other = await startThirdParty()
    onTestFinished(() => other.stop())
    third.resource = { authorization_servers: [other.url] }
    await expire()
    await expect(callTool()).rejects.toMatchObject({ envelope: { data: { step: 'consent' } } })
    await connect((back) => back.searchParams.set('iss', other.url), 'Reconnect')
    expect(other.redeemed).toEqual([])
  })

  test('an error that quotes the refresh token and the secret leaves neither in the logs nor the refusals', async () => {
    await addConnector({ client_id: 'inlay-there', client_secret: 'secret-of-inlay-there' })
    third.metadata = { token_endpoint_auth_methods_supported: ['client_secret_post'] }
    await connect()
    const refreshToken = String((await stored())?.refresh_token)
    const console = vi.spyOn(globalThis.console, 'warn').mockImplementation(() => undefined)
    onTestFinished(() => console.mockRestore())
    third.instead['/token'] = (response) =>
      json(response, { error: 'invalid_request', error_description: JSON.stringify(third.redeemed.at(-1)) }, 400)
    await expire()
    await expect(callTool()).rejects.toMatchObject({ envelope: { data: { step: 'consent' } } })
    expect(third.redeemed.at(-1)).toMatchObject({
      refresh_token: refreshToken,
      client_secret: 'secret-of-inlay-there',
    })
    await app.service.activity.flush()
    const { refusals } = (await asAdmin('GET', '/diagnostics/refusals')).body
    expect(JSON.stringify(refusals)).toContain('[secret]')
    const written = app.logged() + JSON.stringify([refusals, console.mock.calls])
    expect(written).not.toContain(refreshToken)
    expect(written).not.toContain('secret-of-inlay-there')
  })

  test.each<[string, Change]>([
    [
      'a long page',
      at('/token', (response) => response.writeHead(500).end(`${markup} ${'one-secret '.repeat(50_000)}`)),
    ],
    ['a long error', at('/token', (response) => json(response, { error: 'x', error_description: long }, 400))],
    ['a page, as a success', at('/token', (response) => response.end(markup.repeat(1_000)))],
    ['tokens in an error', at('/token', (response) => json(response, { access_token: 'one-secret' }, 400))],
    ['a token that would add a header', tokens({ access_token: 'one-secret\r\nx-forged: yes' })],
    ['a redirect', at('/token', to(307))],
  ])('a renewal that is answered with %s fails, and leaves a short line in the logs', async (_, change) => {
    await connect()
    const console = vi.spyOn(globalThis.console, 'warn').mockImplementation(() => undefined)
    onTestFinished(() => console.mockRestore())
    const before = app.logged().length
    Object.assign(third, change())
    await expire()
    await expect(callTool()).rejects.toMatchObject({ envelope: { data: { step: 'consent' } } })
    const written = app.logged().slice(before) + JSON.stringify(console.mock.calls)
    expect(written.length).toBeLessThan(10_000)
    expect(written).not.toContain('one-secret')
    expect(asked).toEqual([])
  })
})
