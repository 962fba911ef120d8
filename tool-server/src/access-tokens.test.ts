import { generateKeyPairSync } from 'node:crypto'
import fc from 'fast-check'
import { SignJWT } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { answerOf, bothScopes, type Fixture, hub, resource, secret, setUp, tokenRequest } from '../test/fixture.ts'
import type { ToolServer } from './tool-server.ts'

let fixture: Fixture
beforeAll(async () => {
  fixture = await setUp()
})
afterAll(() => fixture[Symbol.asyncDispose]())
beforeEach(() => {
  fixture.refusals.length = 0
})

const seconds = () => fixture.time.now / 1000
const withToken = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

async function earnToken(changes?: Record<string, unknown>, server = fixture.server): Promise<string> {
  const { body } = await answerOf(server.fetch(tokenRequest(await fixture.provider.sign(fixture.claims(changes)))))
  return JSON.parse(body).access_token
}

/** A token as the server itself would sign it, except for the changes. */
const forge = (claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}, key = secret) =>
  new SignJWT({
    iss: resource,
    aud: resource,
    sub: 'ann',
    idp: fixture.provider.issuer,
    client_id: hub.clientId,
    scope: bothScopes,
    iat: seconds(),
    exp: seconds() + 300,
    ...claims,
  })
    .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt', ...header })
    .sign(new TextEncoder().encode(key), { crit: { unknown: false } })

const answerTo = async (authorization?: string, server: ToolServer = fixture.server) => {
  const verified = await server.verify({ headers: authorization === undefined ? {} : { authorization } })
  if (verified.ok) throw new Error('The server accepted the token')
  const { status, body, headers } = verified.answer
  return { status, body, challenge: headers['www-authenticate'] }
}

const metadata = 'resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp"'
const invalidToken = {
  status: 401,
  body: '{"error":"invalid_token"}',
  challenge: `Bearer error="invalid_token", ${metadata}, scope="mcp:tools:read mcp:tools:call"`,
}

test('verify returns the user, the provider, the hub and the scopes', async () => {
  const profile = { email: 'ann@example.com', groups: ['shop'], roles: ['buyer'] }
  expect(await fixture.server.verify(withToken(await earnToken(profile)))).toEqual({
    ok: true,
    caller: {
      subject: 'ann',
      issuer: fixture.provider.issuer,
      clientId: 'hub',
      scopes: ['mcp:tools:read', 'mcp:tools:call'],
      ...profile,
    },
  })
})

describe('refuses a token', () => {
  const elliptic = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  test.each<[reason: string, what: string, make: () => Promise<string>]>([
    ['issuer', 'another iss', () => forge({ iss: 'https://other.example.com/mcp' })],
    ['issuer', 'no iss', () => forge({ iss: undefined })],
    ['audience', 'another aud', () => forge({ aud: 'https://other.example.com/mcp' })],
    ['audience', 'more than one aud', () => forge({ aud: [resource, 'https://other.example.com/mcp'] })],
    ['audience', 'no aud', () => forge({ aud: undefined })],
    ['subject', 'no sub', () => forge({ sub: undefined })],
    ['subject', 'an empty sub', () => forge({ sub: '' })],
    ['client_id', 'a hub that is no longer configured', () => forge({ client_id: 'former' })],
    ['client_id', 'a provider that is no longer configured', () => forge({ idp: 'https://former.example.com' })],
    ['client_id', 'no hub and no provider', () => forge({ client_id: undefined, idp: undefined })],
    ['expired', 'no exp', () => forge({ exp: undefined })],
    ['expired', 'exp 61 s ago', () => forge({ exp: seconds() - 61 })],
    ['type', 'typ JWT', () => forge({}, { typ: 'JWT' })],
    ['type', 'no typ', () => forge({}, { typ: undefined })],
    ['type', 'an assertion', () => fixture.provider.sign(fixture.claims())],
    [
      'type',
      'an asymmetric signature',
      () => new SignJWT({}).setProtectedHeader({ alg: 'ES256', typ: 'at+jwt' }).sign(elliptic),
    ],
    ['critical_header', 'a critical header', () => forge({}, { crit: ['unknown'], unknown: 1 })],
    ['signature', 'another secret', () => forge({}, {}, 'another secret, as long as the first one')],
    ['signature', 'a signature of three bytes', async () => (await forge()).replace(/\.[^.]*$/, '.AAAA')],
    ['format', 'no signature', async () => (await forge()).replace(/\.[^.]*$/, '.')],
    ['format', 'an opaque token', async () => 'opaque'],
  ])('because of its %s: %s', async (reason, _, make) => {
    expect(await answerTo(`Bearer ${await make()}`)).toEqual(invalidToken)
    expect(fixture.refusals).toEqual([{ of: 'access', reason }])
  })

  test('only after 60 s of clock skew', async () => {
    expect(await fixture.server.verify(withToken(await forge({ exp: seconds() - 59 })))).toMatchObject({ ok: true })
  })

  test('after any mutation', async () => {
    const token = await earnToken()
    await fc.assert(
      fc.asyncProperty(fc.nat(token.length - 1), fc.string({ maxLength: 2 }), async (at, by) => {
        const mutated = token.slice(0, at) + by + token.slice(at + 1)
        fc.pre(mutated !== token)
        expect(await fixture.server.verify(withToken(mutated))).toMatchObject({ ok: false })
      }),
      { numRuns: 500 },
    )
    expect(await fixture.server.verify(withToken(token))).toMatchObject({ ok: true })
  })
})

describe('a request', () => {
  test('without a token gets the URL of the metadata, and no error code', async () => {
    const challenge = `Bearer ${metadata}, scope="mcp:tools:read mcp:tools:call"`
    expect(await answerTo()).toEqual({ ...invalidToken, challenge })
    expect(fixture.refusals).toEqual([{ of: 'access', reason: 'missing' }])
  })

  test.each([
    ['with another scheme', (token: string) => `Basic ${token}`],
    ['with two tokens', (token: string) => `Bearer ${token}, Bearer ${token}`],
    ['with a token and no scheme', (token: string) => token],
  ])('%s is refused', async (_, write) => {
    expect(await answerTo(write(await earnToken()))).toEqual(invalidToken)
  })

  test('can write the scheme in lowercase', async () => {
    const authorization = `bearer ${await earnToken()}`
    expect(await fixture.server.verify({ headers: { authorization } })).toMatchObject({ ok: true })
  })

  test.each<[string, ('mcp:tools:read' | 'mcp:tools:call')[], boolean]>([
    ['mcp:tools:read', ['mcp:tools:read'], true],
    ['mcp:tools:read', ['mcp:tools:call'], false],
    ['mcp:tools:call', ['mcp:tools:read', 'mcp:tools:call'], false],
    [bothScopes, ['mcp:tools:read', 'mcp:tools:call'], true],
    ['mcp:tools:call', [], true],
  ])('with the scope %s, if %j is required, is accepted: %s', async (scope, wanted, isAllowed) => {
    const verified = await fixture.server.verify(withToken(await earnToken({ scope })), wanted)
    expect(verified.ok).toBe(isAllowed)
    if (verified.ok) return
    const { status, body, headers } = verified.answer
    expect({ status, body }).toEqual({ status: 403, body: '{"error":"insufficient_scope"}' })
    const challenge = `Bearer error="insufficient_scope", ${metadata}, scope="${wanted.join(' ')}"`
    expect(headers['www-authenticate']).toBe(challenge)
    expect(fixture.refusals).toEqual([{ of: 'access', reason: 'scope' }])
  })
})

describe('secrets', () => {
  const older = 'the secret that was used until yesterday'
  const newer = 'the secret that is used from this day on'

  test('can be rotated without invalidating tokens', async () => {
    const token = await earnToken({}, fixture.another({ secrets: [older] }))
    expect(await fixture.another({ secrets: [newer, older] }).verify(withToken(token))).toMatchObject({ ok: true })
    expect(await fixture.another({ secrets: [newer] }).verify(withToken(token))).toMatchObject({ ok: false })
  })

  test('sign with the first one', async () => {
    const token = await earnToken({}, fixture.another({ secrets: [newer, older] }))
    expect(await fixture.another({ secrets: [newer] }).verify(withToken(token))).toMatchObject({ ok: true })
  })
})
