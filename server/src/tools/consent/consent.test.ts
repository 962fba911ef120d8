import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import type { Email } from '../../../test/harness.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { callerFor } from '../../../test/shop.ts'
import { type StoredConnector, selectStoredConnectors } from '../connectors/connectors.ts'
import { createAccessTokens } from '../remote-tools/connector-tokens.ts'

/** Two installations: ours, and one as the third party, with a real MCP endpoint and authorization server. */
let app: HttpService
let third: HttpService
let me: Awaited<ReturnType<typeof callerFor>>
let connectorId = ''
beforeAll(async () => {
  app = await startHttpService()
  third = await startHttpService()
  me = await callerFor(app, 'member@demo.test', 'demo')
})
afterAll(async () => {
  await app.close()
  await third.close()
})

const asAdmin = async (method: string, path: string, body?: unknown) =>
  app.request(method, path, { token: await app.tokenFor('admin@demo.test', 'demo'), body })

beforeEach(async () => {
  for (const { id } of (await asAdmin('GET', '/connectors')).body.connectors)
    await asAdmin('DELETE', `/connectors/${id}`)
  const body = { name: 'third', kind: 'oauth', server_url: `${third.url}/mcp` }
  connectorId = (await asAdmin('POST', '/connectors', body)).body.id
})

const link = () => `${app.url}/connect/${connectorId}`

/** Signs in on our page. */
async function openPage(email: Email = 'member@demo.test'): Promise<Browser> {
  const browser = await new Browser(app.url).open(link())
  return browser.press(email)
}

/** Continues from our page to the third party's consent page. */
async function goToThird(ours: Browser): Promise<Browser> {
  await ours.press('Connect')
  await ours.follow(`Continue to ${new URL(third.url).host}`)
  const theirs = await new Browser(third.url).open(ours.left?.href ?? '')
  return theirs.press('admin@other.test')
}

async function connect(email?: Email): Promise<{ ours: Browser; theirs: Browser }> {
  const ours = await openPage(email)
  const theirs = await goToThird(ours)
  await theirs.press('Allow')
  await ours.open(theirs.left?.href ?? '')
  return { ours, theirs }
}

const tokenKey = async (email = 'member@demo.test') => {
  const [user] = await app.service.database.asService(
    (sql) => sql<{ id: string }>`select id from users where email = ${email}`,
  )
  return `token:${await app.organization('demo')}:${connectorId}:${user?.id}`
}
const stored = async (email?: string) =>
  app.service.kv.get<{ access_token: string; refresh_token: string; expires_at: number }>(await tokenKey(email))

const consentNeeded = () =>
  expect.objectContaining({
    envelope: {
      defined: false,
      code: 'DELEGATION_FAILED',
      status: 502,
      message: `third: Connect your account in your browser first: ${link()}`,
      data: { connector: 'third', step: 'consent' },
    },
  })

const whoAmI = async () => JSON.parse(((await me.call('third.get_profile')).content[0] as { text: string }).text).email

test('a member allows access on our page, and acts there with their own account', async () => {
  await expect(me.call('third.get_profile')).rejects.toEqual(consentNeeded())
  expect(await me.tools()).toEqual([])

  const ours = await openPage()
  expect(ours.text).toContain('Connect third?')
  expect(ours.text).toContain(`Server ${third.url}/mcp Added by an administrator of Demo`)
  const theirs = await goToThird(ours)
  expect(theirs.text).toContain('Allow Inlay?')
  await theirs.press('Allow')
  await ours.open(theirs.left?.href ?? '')
  expect(ours.text).toContain('You’re connected to third')

  expect(await whoAmI()).toBe('admin@other.test')
  expect((await me.tools()).map(({ name }) => name)).toContain('third.list_members')
  expect(await stored()).toEqual({
    access_token: expect.any(String),
    refresh_token: expect.any(String),
    expires_at: app.clock.now + 3600_000,
    scopes: ['inlay'],
    issuer: third.url,
  })
})

test("a member who has not consented cannot use other members' tokens", async () => {
  await connect()
  const admin = await callerFor(app, 'admin@demo.test', 'demo')
  await expect(admin.call('third.get_profile')).rejects.toEqual(consentNeeded())
})

test('renews an expired token once for all callers that need it', async () => {
  await connect()
  await whoAmI()
  const before = await stored()
  await app.service.kv.set(await tokenKey(), { ...before, expires_at: app.clock.now }, 3600)
  const answers = await Promise.all([whoAmI(), whoAmI(), whoAmI()])
  expect(answers).toEqual(['admin@other.test', 'admin@other.test', 'admin@other.test'])
  const after = await stored()
  expect(after?.refresh_token).not.toBe(before?.refresh_token)
  expect(after?.expires_at).toBe(app.clock.now + 3600_000)
})

test('two nodes that need a new token at once get the same one, because a refresh token must not be used twice', async () => {
  await connect()
  await app.service.kv.set(await tokenKey(), { ...(await stored()), expires_at: app.clock.now }, 3600)
  const organizationId = await app.organization('demo')
  const [connector] = await app.service.database.asOrg(organizationId, (sql) =>
    selectStoredConnectors(sql, connectorId),
  )
  const userId = (await tokenKey()).split(':')[3] ?? ''
  const delegate = { organizationId, connector: connector as StoredConnector, userId, vouched: undefined }
  const nodes = [createAccessTokens(app.service), createAccessTokens(app.service), createAccessTokens(app.service)]
  const tokens = await Promise.all(nodes.map((node) => node.get(delegate)))
  expect(new Set(tokens).size).toBe(1)
  expect(await whoAmI()).toBe('admin@other.test')
})

test('does not use a token with more scopes than an administrator allows', async () => {
  await connect()
  await asAdmin('PATCH', `/connectors/${connectorId}`, { scopes: ['less'] })
  await expect(me.call('third.get_profile')).rejects.toMatchObject({
    envelope: {
      message: `third: The server granted more scopes than an administrator allows. Connect again: ${link()}`,
      data: { connector: 'third', step: 'consent' },
    },
  })
})

test('asks for consent again after the third party revokes it', async () => {
  const { theirs } = await connect()
  await whoAmI()
  await theirs.open('/oauth/logout')
  await theirs.press('Sign out')
  await expect(me.call('third.get_profile')).rejects.toEqual(consentNeeded())
  expect(await stored()).toBeUndefined()
})

test('disconnecting deletes the tokens and revokes them at the third party', async () => {
  const { ours } = await connect()
  const { access_token = '' } = (await stored()) ?? {}
  const useToken = async () => {
    const headers = { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })
    return (await third.fetch('/mcp', { method: 'POST', headers, body })).status
  }
  expect(await useToken()).toBe(200)
  await ours.press('Disconnect')
  expect(ours.text).toContain('Connect third?')
  expect(await stored()).toBeUndefined()
  expect(await useToken()).toBe(401)
  await expect(me.call('third.get_profile')).rejects.toEqual(consentNeeded())
})

test('stays disconnected when the user denies access at the third party', async () => {
  const ours = await openPage()
  const theirs = await goToThird(ours)
  await theirs.press('Cancel')
  await ours.open(theirs.left?.href ?? '')
  expect(ours.text).toContain('The server denied access.')
  expect(await stored()).toBeUndefined()
})

describe('a redirect from the third party', () => {
  const nothing = 'This link isn’t valid'

  test('works once', async () => {
    const ours = await openPage()
    const theirs = await goToThird(ours)
    await theirs.press('Allow')
    await ours.open(theirs.left?.href ?? '')
    await ours.press('Disconnect')
    expect((await ours.open(theirs.left?.href ?? '')).text).toContain(nothing)
    expect(await stored()).toBeUndefined()
  })

  test('works only in the browser of the user who asked', async () => {
    const theirs = await goToThird(await openPage())
    await theirs.press('Allow')
    const somebodyElse = await openPage('admin@demo.test')
    expect((await somebodyElse.open(theirs.left?.href ?? '')).text).toContain(nothing)
    const nobody = await new Browser(app.url).open(theirs.left?.href ?? '')
    expect(nobody.text).toContain(nothing)
    expect([await stored(), await stored('admin@demo.test')]).toEqual([undefined, undefined])
  })

  test('with another issuer is rejected', async () => {
    const ours = await openPage()
    const theirs = await goToThird(ours)
    await theirs.press('Allow')
    const back = new URL(theirs.left?.href ?? '')
    expect(back.searchParams.get('iss')).toBe(third.url)
    back.searchParams.set('iss', 'https://evil.example')
    await ours.open(back)
    expect(ours.page?.status).toBe(400)
    expect(await stored()).toBeUndefined()
  })

  test.each(['', 'state=made-up&code=x'])('with an unknown state is rejected: %s', async (query) => {
    const ours = await openPage()
    expect((await ours.open(`/connect/callback?${query}`)).text).toContain(nothing)
  })
})

describe('the page', () => {
  test.each<[string, () => string | Promise<string>]>([
    ['an invalid id', () => '/connect/nothing'],
    ['an unknown id', () => '/connect/019a0000-0000-7000-8000-000000000000'],
    [
      'a connector of another organization',
      async () => {
        const token = await app.tokenFor('admin@other.test', 'other')
        const body = { name: `x${Date.now()}`, kind: 'oauth', server_url: `${third.url}/mcp` }
        return `/connect/${(await app.request('POST', '/connectors', { token, body })).body.id}`
      },
    ],
    [
      'a disabled one',
      async () => {
        await asAdmin('PATCH', `/connectors/${connectorId}`, { status: 'disabled' })
        return `/connect/${connectorId}`
      },
    ],
  ])('shows an error for %s', async (_, path) => {
    const ours = await openPage('admin@demo.test')
    await ours.open(await path())
    expect({ status: ours.page?.status, text: ours.text }).toMatchObject({
      status: 404,
      text: expect.stringContaining('This link isn’t valid'),
    })
  })

  test('accepts forms only from itself, and each once', async () => {
    const ours = await openPage()
    const before = ours.page
    await ours.press('Connect', {}, { origin: 'https://evil.example' })
    expect(ours.page?.status).toBe(403)
    ours.page = before
    await ours.press('Connect')
    ours.page = before
    expect((await ours.press('Connect')).page?.status).toBe(404)
  })

  test('explains what is wrong with a server', async () => {
    await asAdmin('DELETE', `/connectors/${connectorId}`)
    const body = { name: 'third', kind: 'oauth', server_url: 'http://127.0.0.1:9/mcp' }
    connectorId = (await asAdmin('POST', '/connectors', body)).body.id
    const ours = await openPage()
    await ours.press('Connect')
    expect(ours.page?.status).toBe(400)
    expect(ours.text).toContain('The request to 127.0.0.1:9 failed')
  })

  test('cannot be framed, and runs no scripts', async () => {
    const ours = await openPage()
    expect(ours.page?.headers.get('content-security-policy')).toMatch(/default-src 'none'.*frame-ancestors 'none'/)
  })
})

test('uses a client that was registered in advance', async () => {
  const redirect_uris = [`${app.url}/connect/callback`]
  const registered = await third.fetch('/oauth/register', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ client_name: 'By hand', redirect_uris, token_endpoint_auth_method: 'client_secret_basic' }),
  })
  const { client_id, client_secret } = (await registered.json()) as { client_id: string; client_secret: string }
  await asAdmin('DELETE', `/connectors/${connectorId}`)
  const body = { name: 'third', kind: 'oauth', server_url: `${third.url}/mcp`, client_id, client_secret }
  connectorId = (await asAdmin('POST', '/connectors', body)).body.id
  const ours = await openPage()
  const theirs = await goToThird(ours)
  expect(theirs.text).toContain('Allow By hand?')
  await theirs.press('Allow')
  await ours.open(theirs.left?.href ?? '')
  expect(await whoAmI()).toBe('admin@other.test')
})

test('publishes a client metadata document for third parties', async () => {
  const response = await app.fetch('/client-metadata.json')
  expect(await response.json()).toEqual({
    client_id: `${app.url}/client-metadata.json`,
    client_name: 'Inlay',
    client_uri: app.url,
    redirect_uris: [`${app.url}/connect/callback`],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  })
})

test("the test of a connector uses the caller's own consent", async () => {
  const run = async () => (await asAdmin('POST', `/connectors/${connectorId}/test`)).body
  expect(await run()).toEqual({
    success: false,
    steps: [
      { step: 'consent', status: 'failed', message: `Connect your account in your browser first: ${link()}` },
      { step: 'tools_list', status: 'skipped', message: '' },
    ],
  })
  await connect('admin@demo.test')
  expect(await run()).toMatchObject({ success: true, steps: [{ step: 'consent' }, { step: 'tools_list' }] })
})
