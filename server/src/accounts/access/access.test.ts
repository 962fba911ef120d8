import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { createSigningKeys, rotateAfterMs } from './signing-keys.ts'

const minute = 60_000

let app: TestService
let demo: string
beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
})
afterAll(() => app.close())

/** A token that this issuer really signed, with any claims. */
async function signed(claims: Record<string, unknown>, header: Record<string, unknown> = {}): Promise<string> {
  const { kid, privateKey } = await createSigningKeys(app.service).current()
  const me = await app.request('GET', '/users/me', { token: await app.tokenFor('admin@demo.test') })
  const now = Math.floor(app.clock.now / 1000)
  const all = {
    iss: 'http://localhost:8787',
    sub: me.body.id,
    aud: ['http://localhost:8787/api'],
    iat: now,
    exp: now + 600,
    jti: crypto.randomUUID(),
    ...claims,
  }
  return new SignJWT(all as never).setProtectedHeader({ alg: 'EdDSA', typ: 'at+jwt', kid, ...header }).sign(privateKey)
}

const listKeys = (token: string) => app.request('GET', '/publishable-keys', { token })

describe('the organization of a token', () => {
  test.each([
    ['org_id', () => ({ org_id: demo }), 200, undefined],
    ['organization_id', () => ({ organization_id: demo }), 200, undefined],
    ['both, equal', () => ({ org_id: demo, organization_id: demo }), 200, undefined],
    ['both, different', () => ({ org_id: demo, organization_id: 'x' }), 401, 'AUTH_REQUIRED'],
    ['neither', () => ({}), 403, 'ORG_CONTEXT_REQUIRED'],
    ['empty', () => ({ org_id: '' }), 403, 'ORG_CONTEXT_REQUIRED'],
    ['an array', () => ({ org_id: [demo] }), 403, 'ORG_CONTEXT_REQUIRED'],
    ['a number', () => ({ org_id: 1 }), 403, 'ORG_CONTEXT_REQUIRED'],
    ['not an id', () => ({ org_id: "x' or '1'='1" }), 403, 'ACCESS_DENIED'],
    ['an unknown one', () => ({ org_id: crypto.randomUUID() }), 403, 'ACCESS_DENIED'],
  ] as const)('as %s', async (_, claims, status, code) => {
    const answer = await listKeys(await signed(claims()))
    expect({ status: answer.status, code: answer.body.data?.code }).toEqual({ status, code })
  })
})

describe('a token is refused', () => {
  const now = () => Math.floor(app.clock.now / 1000)
  test.each([
    ['of another issuer', () => signed({ org_id: demo, iss: 'https://evil.example' })],
    ['for another audience', () => signed({ org_id: demo, aud: 'http://localhost:8787/mcp' })],
    ['without an audience', () => signed({ org_id: demo, aud: undefined })],
    ['without an id', () => signed({ org_id: demo, jti: undefined })],
    ['without an expiry', () => signed({ org_id: demo, exp: undefined })],
    ['without a subject', () => signed({ org_id: demo, sub: undefined })],
    ['of an unknown user', () => signed({ org_id: demo, sub: crypto.randomUUID() })],
    ['expired for 61 seconds', () => signed({ org_id: demo, exp: now() - 61 })],
    ['that is an ID token', () => signed({ org_id: demo }, { typ: 'JWT' })],
    ['with an unknown key', () => signed({ org_id: demo }, { kid: 'unknown' })],
    ['with a changed payload', async () => (await signed({ org_id: demo })).replace(/\.(.{9})./, '.$1x')],
    ['with a changed signature', async () => `${(await signed({ org_id: demo })).slice(0, -4)}AAAA`],
    ['with a fourth part', async () => `${await signed({ org_id: demo })}.x`],
  ])('%s', async (_, make) => {
    const { status, body } = await listKeys(await make())
    expect({ status, code: body.data?.code }).toEqual({ status: 401, code: 'AUTH_REQUIRED' })
  })

  test('but not one that expired 59 seconds ago, because clocks differ', async () => {
    expect((await listKeys(await signed({ org_id: demo, exp: now() - 59 }))).status).toBe(200)
  })

  test('after logout, even if it is cached', async () => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    expect((await listKeys(token)).status).toBe(200)
    expect((await app.request('POST', '/auth/logout', { token })).body).toEqual({ success: true })
    expect((await listKeys(token)).status).toBe(401)
    expect((await listKeys(await app.tokenFor('admin@demo.test', 'demo'))).status, 'other tokens live on').toBe(200)
  })

  test.each(['', ' ', 'garbage', 'Bearer', 'a.b.c', 'eyJhbGciOiJub25lIn0.e30.', 'x'.repeat(16_000)])(
    'that is the text %#',
    async (text) => {
      const { status, body } = await app.request('GET', '/publishable-keys', {
        headers: { authorization: `Bearer ${text}` },
      })
      expect({ status, code: body.data?.code }).toEqual({ status: 401, code: 'AUTH_REQUIRED' })
    },
  )

  test.each(['=', '==', '~', '!', '%20', '.', '.x'])('with %s appended, before and after logout', async (extra) => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    expect((await listKeys(token + extra)).status).toBe(401)
    await app.request('POST', '/auth/logout', { token })
    expect((await listKeys(token + extra)).status).toBe(401)
  })

  test('if a part has another encoding of the same bytes', async () => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    expect((await listKeys(token)).status).toBe(200)
    // 64 bytes leave four spare bits in the last character of a signature.
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const index = letters.indexOf(token.at(-1) as string)
    for (let spare = 1; spare < 16; spare += 1) {
      expect((await listKeys(token.slice(0, -1) + letters[index ^ spare])).status).toBe(401)
    }
    const [head, body, signature] = token.split('.')
    for (const other of [`${head}=.${body}.${signature}`, `${head}.${body}~.${signature}`]) {
      expect((await listKeys(other)).status).toBe(401)
    }
  })
})

test.each([
  ['the query', '/publishable-keys?organization_id=ORG', {}],
  ['a header', '/publishable-keys', { 'x-organization-id': 'ORG', 'x-org-id': 'ORG' }],
])('an organization smuggled in through %s is ignored', async (_, path, headers) => {
  const other = await app.organization('other')
  await app.request('POST', '/publishable-keys', {
    token: await app.tokenFor('admin@other.test', 'other'),
    body: { name: 'Of the other' },
  })
  const replaced = Object.fromEntries(Object.entries(headers).map(([name]) => [name, other]))
  const { body } = await app.request('GET', path.replace('ORG', other), {
    token: await app.tokenFor('admin@demo.test', 'demo'),
    headers: replaced,
  })
  expect(JSON.stringify(body)).not.toContain('Of the other')
})

test('a demoted or removed member loses access immediately, and within 30 seconds on a node that missed the message', async () => {
  const app = await useTestService()
  const admin = await app.tokenFor('admin@other.test', 'other')
  const member = await app.tokenFor('member@demo.test', 'other')
  const create = () => app.request('POST', '/publishable-keys', { token: member, body: { name: 'x' } })
  expect((await create()).status).toBe(200)
  const members = await app.request('GET', '/organizations/current/members', { token: admin })
  const { id } = members.body.find((entry: { user: { email: string } }) => entry.user.email === 'member@demo.test')

  await app.request('PATCH', `/organizations/current/members/${id}`, { token: admin, body: { role: 'member' } })
  expect((await create()).body.data.code).toBe('ACCESS_DENIED')
  expect((await app.request('GET', '/publishable-keys', { token: member })).status).toBe(200)

  // Changes the database directly, as if the message was lost.
  await app.service.database.asOrg(await app.organization('other'), (sql) => sql`delete from members where id = ${id}`)
  expect((await app.request('GET', '/publishable-keys', { token: member })).status, 'cached').toBe(200)
  app.clock.now += 30_001
  expect((await app.request('GET', '/publishable-keys', { token: member })).body.data.code).toBe('ACCESS_DENIED')
})

test('rotates signing keys without invalidating tokens, and removes a key once its tokens have expired', async () => {
  const app = await useTestService()
  const keys = createSigningKeys(app.service)
  const published = async () => (await keys.published()).keys.map(({ kid }) => kid)
  const use = async (token: string) => (await app.request('GET', '/users/me', { token })).status
  const [first] = await published()

  const before = await app.tokenFor('admin@demo.test')
  expect(await use(before)).toBe(200)
  app.clock.now += rotateAfterMs - 10 * minute
  const old = await app.tokenFor('admin@demo.test')
  app.clock.now += 11 * minute
  expect(await use(old), 'signed just before the rotation').toBe(200)
  expect(await published()).toHaveLength(2)
  expect((await keys.current()).kid, 'a new key is published before it signs').toBe(first)
  app.clock.now += 11 * minute
  expect((await keys.current()).kid).not.toBe(first)
  expect(await use(old)).toBe(200)
  expect(await use(await app.tokenFor('admin@demo.test'))).toBe(200)
  for (let rotation = 0; rotation < 3; rotation += 1) {
    app.clock.now += rotateAfterMs + minute
    await keys.published()
  }
  expect(await published()).not.toContain(first)
})

test('publishes only public keys', async () => {
  const response = await app.fetch('/oauth/jwks')
  const { keys } = (await response.json()) as { keys: Record<string, string>[] }
  expect(keys.map((key) => Object.keys(key).sort())).toEqual([['alg', 'crv', 'kid', 'kty', 'use', 'x']])
})

describe('an external sign-in issuer', () => {
  /** A provider with discovery and keys, on its own HTTP server. */
  async function startIssuer() {
    const { publicKey, privateKey } = await generateKeyPair('RS256')
    const jwk = { ...(await exportJWK(publicKey)), kid: 'k1', alg: 'RS256', use: 'sig' }
    const server = createServer((request, response) => {
      const body = request.url?.endsWith('/jwks') ? { keys: [jwk] } : { issuer: url(), jwks_uri: `${url()}/jwks` }
      response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const token = (claims: Record<string, unknown> = {}) =>
      new SignJWT({ email: 'Ann@Example.com', email_verified: true, name: 'Ann', ...claims })
        .setProtectedHeader({ alg: 'RS256', kid: 'k1' })
        .setIssuer(url())
        .setSubject((claims.sub as string) ?? 'ann')
        .setAudience((claims.aud as string) ?? 'inlay')
        .setIssuedAt()
        .setExpirationTime('10m')
        .sign(privateKey)
    return { url: url(), token }
  }

  test('creates users on their first request, and lets invited ones join', async () => {
    const issuer = await startIssuer()
    const app = await useTestService({ SIGN_IN_ISSUER: issuer.url, SIGN_IN_AUDIENCE: 'inlay' })
    const invite = await app.request('POST', '/organizations/current/invitations', {
      token: await app.tokenFor('admin@demo.test', 'demo'),
      body: { email: 'ann@example.com', role: 'admin' },
    })
    expect(invite.status).toBe(200)

    const mallory = await issuer.token({ email_verified: false, sub: 'mallory' })
    const stranger = await app.request('GET', '/users/me/invitations', { token: mallory })
    expect(stranger.body, 'an unverified address has no invitations').toEqual([])
    const accept = `/users/me/invitations/${invite.body.id}/accept`
    expect((await app.request('POST', accept, { token: mallory })).status).toBe(404)

    const org_id = await app.organization('demo')
    const unasked = await app.request('GET', '/users/me', { token: await issuer.token({}) })
    expect(unasked.body.organizations, 'no user becomes a member without accepting').toEqual([])
    expect((await app.request('POST', accept, { token: await issuer.token({}) })).status).toBe(200)
    const { body } = await app.request('GET', '/users/me', { token: await issuer.token({ org_id }) })
    expect(body).toMatchObject({
      email: 'ann@example.com',
      name: 'Ann',
      organizations: [{ slug: 'demo', role: 'admin' }],
    })
    const again = await app.request('GET', '/users/me', {
      token: await issuer.token({ email: 'new@example.com', org_id }),
    })
    expect(again.body, 'identified by issuer and subject, not by email address').toMatchObject({
      id: body.id,
      email: 'new@example.com',
    })
    expect((await app.request('GET', '/publishable-keys', { token: await issuer.token({ org_id }) })).status).toBe(200)
  })

  test('is trusted only for its own audience and signature', async () => {
    const issuer = await startIssuer()
    const stranger = await startIssuer()
    const app = await useTestService({ SIGN_IN_ISSUER: issuer.url, SIGN_IN_AUDIENCE: 'inlay' })
    const status = async (token: string) => (await app.request('GET', '/users/me', { token })).status
    expect(await status(await issuer.token())).toBe(200)
    expect(await status(await issuer.token({ aud: 'elsewhere' }))).toBe(401)
    expect(await status(await issuer.token({ email: undefined }))).toBe(401)
    expect(await status(await stranger.token())).toBe(401)
    const [head, , signature] = (await stranger.token()).split('.')
    const [, body] = (await issuer.token()).split('.')
    expect(await status([head, body, signature].join('.'))).toBe(401)
  })
})
