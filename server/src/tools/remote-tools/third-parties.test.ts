import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import type { Email } from '../../../test/harness.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { connectDirectory } from '../../../test/scim.ts'
import { callerFor } from '../../../test/shop.ts'
import { startThirdParty, type ThirdParty } from '../../../test/third-party.ts'
import { findUserByEmail } from '../../accounts/users/local-accounts.ts'
import type { ConsentedToken } from '../consent/consent.ts'
import { disconnectUser } from '../consent/revocation.ts'

let app: HttpService
let third: ThirdParty
let connectorId = ''
beforeAll(async () => {
  app = await startHttpService()
  third = await startThirdParty()
})
afterAll(async () => {
  await app.close()
  await third.stop()
})

const asAdmin = async (method: string, path: string, body?: unknown) =>
  app.request(method, path, { token: await app.tokenFor('admin@demo.test', 'demo'), body })

async function addConnector(changes: object = {}): Promise<void> {
  const { connectors } = (await asAdmin('GET', '/connectors')).body
  for (const { id } of connectors) await asAdmin('DELETE', `/connectors/${id}`)
  const body = { name: 'third', kind: 'oauth', server_url: third.serverUrl, ...changes }
  connectorId = (await asAdmin('POST', '/connectors', body)).body.id
}

beforeEach(async () => {
  await addConnector()
  third.reset()
  await app.service.activity.flush()
  await app.service.database.asOrg(await app.organization('demo'), (sql) => sql`delete from refusals`)
})

const member: Email = 'member@demo.test'

async function tokenKey(email = member): Promise<string> {
  const user = await findUserByEmail(app.service, email)
  return `token:${await app.organization('demo')}:${connectorId}:${user?.id}`
}
const stored = async (email?: Email) => app.service.kv.get<ConsentedToken>(await tokenKey(email))

/** Connects a member's account through the consent pages. */
async function connect(email = member) {
  const ours = await new Browser(app.url).open(`/connect/${connectorId}`)
  await ours.press(email)
  await ours.press('Connect')
  await ours.follow(`Continue to ${new URL(third.url).host}`)
  await ours.open(third.decide(ours.left?.href ?? ''))
  const tokens = await stored(email)
  expect(tokens).toMatchObject({ issuer: third.url, refresh_token: expect.any(String) })
  return { ours, tokens: tokens as ConsentedToken }
}

const refusals = async () => (await asAdmin('GET', '/diagnostics/refusals')).body.refusals

const bothOf = ({ access_token, refresh_token }: ConsentedToken) => [
  expect.objectContaining({ token: refresh_token, token_type_hint: 'refresh_token' }),
  expect.objectContaining({ token: access_token, token_type_hint: 'access_token' }),
]
const revokedForms = () => third.revoked.map(({ form }) => form)

describe('disconnecting', () => {
  test('revokes both tokens at the third party after Inlay has deleted them', async () => {
    const { ours, tokens } = await connect()
    const heldMeanwhile: unknown[] = []
    third.instead['/revoke'] = async (response) => {
      heldMeanwhile.push(await stored())
      response.end()
    }
    await ours.press('Disconnect')
    expect(ours.text).toContain('Connect third?')
    expect(revokedForms()).toEqual(bothOf(tokens))
    expect(heldMeanwhile).toEqual([undefined, undefined])
    expect(await refusals()).toEqual([])
  })

  test.each<[string, string[] | undefined, 'basic' | 'post']>([
    ['in a header', ['client_secret_basic', 'client_secret_post'], 'basic'],
    ['in a header by default', undefined, 'basic'],
    ['in the form', ['client_secret_post'], 'post'],
  ])('authenticates the revocation with the client’s secret %s', async (_, methods, expected) => {
    await addConnector({ client_id: 'inlay-there', client_secret: 'secret-of-inlay-there' })
    third.metadata = methods ? { token_endpoint_auth_methods_supported: methods } : {}
    const { ours } = await connect()
    await ours.press('Disconnect')
    expect(third.revoked).toHaveLength(2)
    for (const { form, authorization } of third.revoked) {
      const { token, token_type_hint, ...client } = form
      expect({ client, authorization }).toEqual(
        expected === 'basic'
          ? { client: {}, authorization: `Basic ${btoa('inlay-there:secret-of-inlay-there')}` }
          : {
              client: { client_id: 'inlay-there', client_secret: 'secret-of-inlay-there' },
              authorization: undefined,
            },
      )
    }
  })

  test('sends only the client ID if the client has no secret', async () => {
    const { ours } = await connect()
    await ours.press('Disconnect')
    for (const { form, authorization } of third.revoked) {
      expect(Object.keys(form)).toEqual(['token', 'token_type_hint', 'client_id'])
      expect(authorization).toBeUndefined()
    }
  })

  test('skips the revocation if the third party has no revocation endpoint', async () => {
    const { ours } = await connect()
    third.metadata = { revocation_endpoint: undefined }
    await ours.press('Disconnect')
    expect(ours.text).toContain('Connect third?')
    expect(third.revoked).toEqual([])
    expect(await refusals()).toEqual([])
  })

  test('reports nothing if the server only revokes refresh tokens', async () => {
    const { ours } = await connect()
    third.instead['/revoke'] = (response) =>
      third.revoked.length === 1 ? response.end() : response.writeHead(400).end('{"error": "unsupported_token_type"}')
    await ours.press('Disconnect')
    expect(third.revoked).toHaveLength(2)
    expect(await refusals()).toEqual([])
  })

  test.each<[string, () => void, RegExp]>([
    [
      'rejects the client',
      () => {
        third.instead['/revoke'] = (response) => response.writeHead(401).end('{"error":"invalid_client"}')
      },
      /^third: http:.*\/revoke responded with status 401: invalid_client$/,
    ],
    [
      'returns the token in its response',
      () => {
        third.instead['/revoke'] = (response) => response.writeHead(503).end(third.revoked[0]?.form.token)
      },
      /^third: http:.*\/revoke responded with status 503$/,
    ],
    [
      'closes the connection',
      () => {
        third.instead['/revoke'] = (response) => response.destroy()
      },
      /^third: The request to .* failed/,
    ],
    [
      'never responds',
      () => {
        third.instead['/revoke'] = () => undefined
      },
      /^third: The server didn’t revoke the tokens in time$/,
    ],
    [
      'has an invalid revocation endpoint',
      () => {
        third.metadata = { revocation_endpoint: 'javascript:alert(1)' }
      },
      /^third: .* revocation_endpoint must start with https/,
    ],
    [
      'has changed its issuer',
      () => {
        third.metadata = { issuer: 'https://elsewhere.example' }
      },
      /^third: The authorization server’s metadata is for another issuer$/,
    ],
  ])('works even if the third party %s, and reports it to the administrator', async (_, spoil, message) => {
    const { ours, tokens } = await connect()
    spoil()
    await ours.press('Disconnect')
    expect(ours.page?.status).toBe(200)
    expect(ours.text).toContain('Connect third?')
    expect(await stored()).toBeUndefined()
    expect(await refusals()).toMatchObject([
      {
        surface: 'delegated_identity',
        step: 'revocation',
        code: 'DELEGATION_FAILED',
        message: expect.stringMatching(message),
        count: 1,
      },
    ])
    expect(app.logged()).toContain('could not revoke the tokens of a user who disconnected')
    for (const token of [tokens.access_token, tokens.refresh_token as string]) {
      expect(app.logged() + JSON.stringify(await refusals())).not.toContain(token)
    }
  })

  test('discards a renewal in progress', async () => {
    const { ours, tokens } = await connect()
    await app.service.kv.set(await tokenKey(), { ...tokens, expires_at: 0 }, 3600)
    third.instead['/token'] = async (response) => {
      await ours.press('Disconnect')
      response.setHeader('content-type', 'application/json')
      response.end('{"access_token":"new","refresh_token":"new","token_type":"Bearer","expires_in":3600}')
    }
    const me = await callerFor(app, member, 'demo')
    await expect(me.call('third.any')).rejects.toMatchObject({ envelope: { data: { step: 'consent' } } })
    expect(await stored()).toBeUndefined()
  })
})

test('a renewal without scopes keeps the previous ones', async () => {
  const { tokens } = await connect()
  await app.service.kv.set(await tokenKey(), { ...tokens, scopes: ['notes:read'], expires_at: 0 }, 3600)
  const me = await callerFor(app, member, 'demo')
  // The server rejects every token, but this one is renewed first.
  await expect(me.call('third.any')).rejects.toMatchObject({ envelope: { code: 'DELEGATION_FAILED' } })
  expect(await stored()).toMatchObject({ access_token: expect.not.stringMatching(tokens.access_token) })
  expect(await stored()).toMatchObject({ scopes: ['notes:read'] })
})

// Redis uses its own clock.
test.skipIf(inject('engines').redisUrl)('a registration is kept while in use and renewed after a month', async () => {
  const day = 24 * 60 * 60 * 1000
  const registrations: number[] = []
  for (const days of [0, 20, 20, 31]) {
    app.clock.now += days * day
    const { ours } = await connect()
    registrations.push(third.registrations)
    await ours.press('Disconnect')
  }
  expect(registrations).toEqual([1, 1, 1, 2])
})

test('disconnecting again finishes a disconnection that a crash interrupted', async () => {
  const { tokens } = await connect()
  const [organizationId, user] = [await app.organization('demo'), await findUserByEmail(app.service, member)]
  const disconnectAgain = () => disconnectUser(app.service, organizationId, user?.id ?? '')
  const asked = Promise.withResolvers<void>()
  // Simulates a crash: the first disconnection hangs here.
  third.instead['/revoke'] = () => asked.resolve()
  const cutShort = disconnectAgain()
  await asked.promise
  expect(await stored()).toBeUndefined()
  delete third.instead['/revoke']
  third.revoked.length = 0
  await disconnectAgain()
  expect(revokedForms()).toEqual(bothOf(tokens))
  await cutShort
  third.revoked.length = 0
  await disconnectAgain()
  expect(revokedForms(), 'nothing is left to revoke').toEqual([])
})

test('deleting a connector revokes the tokens of all members', async () => {
  const held = [(await connect()).tokens, (await connect('admin@demo.test')).tokens]
  await asAdmin('DELETE', `/connectors/${connectorId}`)
  expect([await stored(), await stored('admin@demo.test')]).toEqual([undefined, undefined])
  const sent = revokedForms().map(({ token }) => token)
  expect(sent.sort()).toEqual(held.flatMap(({ access_token, refresh_token }) => [access_token, refresh_token]).sort())
})

test('a connector can be deleted while its third party is unreachable', async () => {
  await connect()
  third.metadata = { revocation_endpoint: 'http://127.0.0.1:9/revoke' }
  expect((await asAdmin('DELETE', `/connectors/${connectorId}`)).body).toEqual({ success: true })
  expect(await stored()).toBeUndefined()
  expect(await refusals()).toMatchObject([{ step: 'revocation' }])
})

test.each<[string, (id: string) => Promise<unknown>]>([
  [
    'deactivated',
    async () => {
      const directory = await connectDirectory(app)
      const userId = await directory.addUser(member)
      onTestFinished(async () => {
        await directory.patch(`/Users/${userId}`, { op: 'replace', value: { active: true } })
      })
      return directory.deactivate(userId)
    },
  ],
  ['removed', (id) => asAdmin('DELETE', `/organizations/current/members/${id}`)],
])('a member who is %s is disconnected, and other members aren’t', async (_, leave) => {
  const { tokens } = await connect()
  await connect('admin@demo.test')
  const { body: members } = await asAdmin('GET', '/organizations/current/members')
  const { id } = members.find(({ user }: { user: { email: string } }) => user.email === member)
  await leave(id)
  expect(revokedForms()).toEqual(bothOf(tokens))
  expect(await stored()).toBeUndefined()
  expect(await stored('admin@demo.test')).toBeDefined()
})

describe('metadata with', () => {
  test.each<[string, Record<string, unknown>, string]>([
    [
      'a file URL for authorization',
      { authorization_endpoint: 'file:///etc/passwd' },
      'authorization_endpoint must start with https',
    ],
    ['a script URL for authorization', { authorization_endpoint: 'javascript:alert(1)' }, 'authorization_endpoint'],
    [
      'an http URL on another host for authorization',
      { authorization_endpoint: 'http://elsewhere.example/authorize' },
      'authorization_endpoint must start with https',
    ],
    [
      'credentials in a URL',
      { authorization_endpoint: 'https://user:pw@elsewhere.example/' },
      'a user name or a password',
    ],
    ['a file URL for tokens', { token_endpoint: 'file:///token' }, 'token_endpoint must start with https'],
    ['another protocol for registration', { registration_endpoint: 'ftp://x.example/' }, 'registration_endpoint'],
    ['another protocol for revocation', { revocation_endpoint: 'ftp://x.example/' }, 'revocation_endpoint'],
    ['another issuer', { issuer: 'https://elsewhere.example' }, 'elsewhere.example'],
  ])('%s is refused, and both the page and the test explain why', async (_, metadata, message) => {
    third.metadata = metadata
    const ours = await new Browser(app.url).open(`/connect/${connectorId}`)
    await ours.press('admin@demo.test')
    await ours.press('Connect')
    expect(ours.page?.status).toBe(400)
    expect(ours.text).toContain(message)
    expect(ours.text).not.toContain('Continue to')
    expect(third.registrations).toBe(0)
    expect((await asAdmin('POST', `/connectors/${connectorId}/test`)).body.steps[0]).toEqual({
      step: 'consent',
      status: 'failed',
      message: expect.stringContaining(message),
    })
  })
})
