import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { Browser } from '../../test/browser.ts'
import type { Email } from '../../test/harness.ts'
import { type HttpService, startHttpService } from '../../test/http-server.ts'
import { callerFor } from '../../test/shop.ts'
import { startThirdParty, type ThirdParty } from '../../test/third-party.ts'
import type { ConsentedToken } from '../consent/consent.ts'
import { disconnectPerson } from '../consent/revocation.ts'
import { deactivateMember, reactivateMember } from '../organizations/members.ts'
import { findUserByEmail } from '../users/local-accounts.ts'

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

/** Somebody allows it, and sees that they are connected. */
async function connect(email = member) {
  const ours = await new Browser(app.url).open(`/connect/${connectorId}`)
  await ours.press(email)
  await ours.press('Connect')
  await ours.follow(`Continue at ${new URL(third.url).host}`)
  await ours.open(third.decide(ours.left?.href ?? ''))
  const tokens = await stored(email)
  expect(tokens).toMatchObject({ issuer: third.url, refresh_token: expect.any(String) })
  return { ours, tokens: tokens as ConsentedToken }
}

const trail = async () => ({ organizationId: await app.organization('demo'), actor: 'directory Okta' })

const refusals = async () => (await asAdmin('GET', '/diagnostics/refusals')).body.refusals

const bothOf = ({ access_token, refresh_token }: ConsentedToken) => [
  expect.objectContaining({ token: refresh_token, token_type_hint: 'refresh_token' }),
  expect.objectContaining({ token: access_token, token_type_hint: 'access_token' }),
]
const revokedForms = () => third.revoked.map(({ form }) => form)

describe('whoever disconnects', () => {
  test('has both tokens revoked at the third party, when Inlay has them no more', async () => {
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
    ['in a header where nothing is said', undefined, 'basic'],
    ['in the form', ['client_secret_post'], 'post'],
  ])('is revoked by the client that has the tokens, with its secret %s', async (_, methods, expected) => {
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

  test('is revoked by a client without a secret, by its name alone', async () => {
    const { ours } = await connect()
    await ours.press('Disconnect')
    for (const { form, authorization } of third.revoked) {
      expect(Object.keys(form)).toEqual(['token', 'token_type_hint', 'client_id'])
      expect(authorization).toBeUndefined()
    }
  })

  test('is revoked nowhere when the third party has no place for it', async () => {
    const { ours } = await connect()
    third.metadata = { revocation_endpoint: undefined }
    await ours.press('Disconnect')
    expect(ours.text).toContain('Connect third?')
    expect(third.revoked).toEqual([])
    expect(await refusals()).toEqual([])
  })

  test('is not told that a server ends refresh tokens only', async () => {
    const { ours } = await connect()
    third.instead['/revoke'] = (response) =>
      third.revoked.length === 1 ? response.end() : response.writeHead(400).end('{"error": "unsupported_token_type"}')
    await ours.press('Disconnect')
    expect(third.revoked).toHaveLength(2)
    expect(await refusals()).toEqual([])
  })

  test.each<[string, () => void, RegExp]>([
    [
      'refuses the client',
      () => {
        third.instead['/revoke'] = (response) => response.writeHead(401).end('{"error":"invalid_client"}')
      },
      /^third: http:.*\/revoke answered with status 401: invalid_client$/,
    ],
    [
      'repeats what it was sent',
      () => {
        third.instead['/revoke'] = (response) => response.writeHead(503).end(third.revoked[0]?.form.token)
      },
      /^third: http:.*\/revoke answered with status 503$/,
    ],
    [
      'hangs up',
      () => {
        third.instead['/revoke'] = (response) => response.destroy()
      },
      /^third: The exchange with .* failed/,
    ],
    [
      'never answers',
      () => {
        third.instead['/revoke'] = () => undefined
      },
      /^third: The server did not revoke the tokens in time$/,
    ],
    [
      'has another place for it, which is none',
      () => {
        third.metadata = { revocation_endpoint: 'javascript:alert(1)' }
      },
      /^third: .* revocation_endpoint must start with https/,
    ],
    [
      'is another by now',
      () => {
        third.metadata = { issuer: 'https://elsewhere.example' }
      },
      /^third: The authorization server’s metadata is that of another issuer$/,
    ],
  ])('is disconnected even if the third party %s, and the administrator told', async (_, spoil, message) => {
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
    expect(app.logged()).toContain('the tokens of somebody who disconnected could not be revoked')
    for (const token of [tokens.access_token, tokens.refresh_token as string]) {
      expect(app.logged() + JSON.stringify(await refusals())).not.toContain(token)
    }
  })

  test('keeps nothing of a renewal that was under way', async () => {
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

test('a renewal that does not say for which scopes is for those before', async () => {
  const { tokens } = await connect()
  await app.service.kv.set(await tokenKey(), { ...tokens, scopes: ['notes:read'], expires_at: 0 }, 3600)
  const me = await callerFor(app, member, 'demo')
  // It refuses every token; but this one was renewed before.
  await expect(me.call('third.any')).rejects.toMatchObject({ envelope: { code: 'DELEGATION_FAILED' } })
  expect(await stored()).toMatchObject({ access_token: expect.not.stringMatching(tokens.access_token) })
  expect(await stored()).toMatchObject({ scopes: ['notes:read'] })
})

// Redis has a clock of its own.
test.skipIf(inject('engines').redisUrl)(
  'a registration is kept while it is used, and made anew after a month',
  async () => {
    const day = 24 * 60 * 60 * 1000
    const registrations: number[] = []
    for (const days of [0, 20, 20, 31]) {
      app.clock.now += days * day
      const { ours } = await connect()
      registrations.push(third.registrations)
      await ours.press('Disconnect')
    }
    expect(registrations).toEqual([1, 1, 1, 2])
  },
)

test('a disconnection that a crash cuts short is finished by the next one', async () => {
  const { tokens } = await connect()
  const [organizationId, user] = [await app.organization('demo'), await findUserByEmail(app.service, member)]
  const disconnectAgain = () => disconnectPerson(app.service, organizationId, user?.id ?? '')
  const asked = Promise.withResolvers<void>()
  // Nothing more happens on this node until the next one is done.
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
  expect(revokedForms(), 'there is nothing left to tell').toEqual([])
})

test('a connector that is deleted takes the tokens of all members with it', async () => {
  const held = [(await connect()).tokens, (await connect('admin@demo.test')).tokens]
  await asAdmin('DELETE', `/connectors/${connectorId}`)
  expect([await stored(), await stored('admin@demo.test')]).toEqual([undefined, undefined])
  const sent = revokedForms().map(({ token }) => token)
  expect(sent.sort()).toEqual(held.flatMap(({ access_token, refresh_token }) => [access_token, refresh_token]).sort())
})

test('a connector is deleted although its third party is gone', async () => {
  await connect()
  third.metadata = { revocation_endpoint: 'http://127.0.0.1:9/revoke' }
  expect((await asAdmin('DELETE', `/connectors/${connectorId}`)).body).toEqual({ success: true })
  expect(await stored()).toBeUndefined()
  expect(await refusals()).toMatchObject([{ step: 'revocation' }])
})

test.each<[string, (id: string) => Promise<unknown>]>([
  ['deactivated', async (id) => deactivateMember(app.service, await trail(), id)],
  ['removed', (id) => asAdmin('DELETE', `/organizations/current/members/${id}`)],
])('a member who is %s is disconnected, and nobody else', async (_, leave) => {
  const { tokens } = await connect()
  await connect('admin@demo.test')
  const { body: members } = await asAdmin('GET', '/organizations/current/members')
  const { id } = members.find(({ user }: { user: { email: string } }) => user.email === member)
  onTestFinished(async () => reactivateMember(app.service, await trail(), id).catch(() => undefined))
  await leave(id)
  expect(revokedForms()).toEqual(bothOf(tokens))
  expect(await stored()).toBeUndefined()
  expect(await stored('admin@demo.test')).toBeDefined()
})

describe('a server whose metadata names', () => {
  test.each<[string, Record<string, unknown>, string]>([
    [
      'a file to go to',
      { authorization_endpoint: 'file:///etc/passwd' },
      'authorization_endpoint must start with https',
    ],
    ['a script to go to', { authorization_endpoint: 'javascript:alert(1)' }, 'authorization_endpoint'],
    [
      'plain http on another host to go to',
      { authorization_endpoint: 'http://elsewhere.example/authorize' },
      'authorization_endpoint must start with https',
    ],
    ['credentials', { authorization_endpoint: 'https://user:pw@elsewhere.example/' }, 'a user name or a password'],
    ['a token endpoint that is a file', { token_endpoint: 'file:///token' }, 'token_endpoint must start with https'],
    ['registration by another protocol', { registration_endpoint: 'ftp://x.example/' }, 'registration_endpoint'],
    ['revocation by another protocol', { revocation_endpoint: 'ftp://x.example/' }, 'revocation_endpoint'],
    ['another issuer', { issuer: 'https://elsewhere.example' }, 'elsewhere.example'],
  ])('%s is not gone to, and both the page and the test say why', async (_, metadata, message) => {
    third.metadata = metadata
    const ours = await new Browser(app.url).open(`/connect/${connectorId}`)
    await ours.press('admin@demo.test')
    await ours.press('Connect')
    expect(ours.page?.status).toBe(400)
    expect(ours.text).toContain(message)
    expect(ours.text).not.toContain('Continue at')
    expect(third.registrations).toBe(0)
    expect((await asAdmin('POST', `/connectors/${connectorId}/test`)).body.steps[0]).toEqual({
      step: 'consent',
      status: 'failed',
      message: expect.stringContaining(message),
    })
  })
})
