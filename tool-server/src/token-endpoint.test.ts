import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto'
import fc from 'fast-check'
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, type JWK, SignJWT, UnsecuredJWT } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  answerOf,
  bothScopes,
  type Fixture,
  formRequest,
  hub,
  invalidGrant,
  jwtBearer,
  resource,
  setUp,
  tokenRequest,
  unsupportedGrantType,
} from '../test/fixture.ts'
import { rememberInMemory } from './replays.ts'
import type { ToolServer } from './tool-server.ts'

let fixture: Fixture
beforeAll(async () => {
  fixture = await setUp()
})
afterAll(() => fixture[Symbol.asyncDispose]())
beforeEach(() => {
  fixture.refusals.length = 0
})

const redeem = (assertion: string, fields?: Record<string, string>, server: ToolServer = fixture.server) =>
  answerOf(server.fetch(tokenRequest(assertion, fields)))

const assert = (changes?: Record<string, unknown>, header?: Record<string, unknown>) =>
  fixture.provider.sign(fixture.claims(changes), header)

const seconds = () => fixture.time.now / 1000

describe('a valid assertion', () => {
  test('is exchanged for an access token with the claims of RFC 9068', async () => {
    const profile = { email: 'ann@example.com', groups: ['shop'], roles: ['buyer'] }
    const response = await fixture.server.fetch(tokenRequest(await assert(profile)))
    expect(response?.status).toBe(200)
    expect(response?.headers.get('content-type')).toBe('application/json')
    expect(response?.headers.get('cache-control')).toBe('no-store')
    const body = (await response?.json()) as Record<string, unknown>
    expect(body).toEqual({ access_token: expect.any(String), token_type: 'Bearer', expires_in: 1800 })
    const token = String(body.access_token)
    expect(decodeProtectedHeader(token)).toEqual({ alg: 'HS256', typ: 'at+jwt' })
    expect(decodeJwt(token)).toEqual({
      iss: resource,
      aud: resource,
      sub: 'ann',
      idp: fixture.provider.issuer,
      client_id: 'hub',
      scope: bothScopes,
      iat: seconds(),
      exp: seconds() + 1800,
      jti: expect.any(String),
      ...profile,
    })
    expect(fixture.refusals).toEqual([])
  })

  test.each<[string, Record<string, unknown>, Record<string, unknown>?]>([
    ['an array with its only audience', { aud: [resource] }],
    ['an array with its only resource', { resource: [resource] }],
    ['no resource', { resource: undefined }],
    ['the full media type in another case', {}, { typ: 'application/OAuth-ID-JAG+JWT' }],
    ['a start time 59 s ahead of our clock', { nbf: 1763640059, iat: 1763640059 }],
    ['a lifetime of an hour', { exp: 1763640000 + 3600 }],
    ['profile claims of other types, which are dropped', { email: 7, groups: 'shop', roles: [1] }],
  ])('can have %s', async (_, changes, header) => {
    fixture.time.now = 1763640000_000
    expect(await redeem(await assert(changes, header))).toMatchObject({ status: 200 })
  })

  test('can be presented with HTTP Basic, encoded as in RFC 6749', async () => {
    const pair = [hub.clientId, hub.clientSecret].map((value) => encodeURIComponent(value).replaceAll('%20', '+'))
    const authorization = `Basic ${btoa(pair.join(':'))}`
    const form = { grant_type: jwtBearer, assertion: await assert(), client_id: hub.clientId }
    expect(await answerOf(fixture.server.fetch(formRequest(form, { authorization })))).toMatchObject({ status: 200 })
  })

  test.each<[string, string | undefined, string | undefined, string, string | undefined]>([
    ['all asserted scopes', bothScopes, undefined, bothScopes, undefined],
    ['only scopes of this server', 'admin mcp:tools:read', undefined, 'mcp:tools:read', 'mcp:tools:read'],
    ['only requested scopes', bothScopes, 'mcp:tools:call', 'mcp:tools:call', 'mcp:tools:call'],
    ['only asserted scopes, even if more are requested', 'mcp:tools:read', bothScopes, 'mcp:tools:read', undefined],
    ['all scopes of this server if it asserts none', undefined, undefined, bothScopes, bothScopes],
    ['the requested scopes if it asserts none', undefined, 'mcp:tools:read', 'mcp:tools:read', 'mcp:tools:read'],
  ])('grants %s', async (_, asserted, requested, granted, said) => {
    const { body } = await redeem(await assert({ scope: asserted }), requested ? { scope: requested } : {})
    const { access_token, scope } = JSON.parse(body)
    expect(decodeJwt(access_token).scope).toBe(granted)
    expect(scope).toBe(said)
  })
})

/** Assertions that differ from a valid one in one property. */
const broken: [reason: string, what: string, make: () => Promise<string>][] = [
  ['type', 'typ JWT', () => assert({}, { typ: 'JWT' })],
  ['type', 'no typ', () => assert({}, { typ: undefined })],
  ['type', 'typ of an access token', () => assert({}, { typ: 'at+jwt' })],
  ['issuer', 'another iss', () => assert({ iss: 'https://idp.example.com' })],
  ['issuer', 'iss with a trailing slash', () => assert({ iss: `${fixture.provider.issuer}/` })],
  ['issuer', 'no iss', () => assert({ iss: undefined })],
  ['audience', 'aud of another server', () => assert({ aud: 'https://other.example.com/mcp' })],
  ['audience', 'aud of the origin', () => assert({ aud: 'https://tools.example.com' })],
  ['audience', 'two audiences', () => assert({ aud: [resource, 'https://other.example.com'] })],
  ['audience', 'no aud', () => assert({ aud: undefined })],
  ['client_id', 'another client_id', () => assert({ client_id: 'another' })],
  ['client_id', 'no client_id', () => assert({ client_id: undefined })],
  ['subject', 'no sub', () => assert({ sub: undefined })],
  ['subject', 'an empty sub', () => assert({ sub: '' })],
  ['expired', 'no exp', () => assert({ exp: undefined })],
  ['expired', 'exp as a string', () => assert({ exp: String(seconds() + 300) })],
  ['issued_at', 'no iat', () => assert({ iat: undefined })],
  ['issued_at', 'iat 61 s ahead', () => assert({ iat: seconds() + 61 })],
  ['not_before', 'nbf 61 s ahead', () => assert({ nbf: seconds() + 61 })],
  ['lifetime', 'a lifetime of more than an hour', () => assert({ exp: seconds() + 3601 })],
  ['resource', 'another resource', () => assert({ resource: 'https://other.example.com/mcp' })],
  ['scope', 'an empty scope', () => assert({ scope: '' })],
  ['scope', 'an array of scopes', () => assert({ scope: ['mcp:tools:read'] })],
  ['scope', 'only unknown scopes', () => assert({ scope: 'admin mcp:tools:reads' })],
  ['token_id', 'no jti', () => assert({ jti: undefined })],
  ['token_id', 'a jti of 257 characters', () => assert({ jti: 'x'.repeat(257) })],
  ['confirmation', 'a cnf that requires proof of possession', () => assert({ cnf: { jkt: 'thumbprint' } })],
  ['key_id', 'no kid', () => assert({}, { kid: undefined })],
  ['unknown_key', 'a kid that the provider does not publish', () => assert({}, { kid: 'another' })],
  ['algorithm', 'alg none', async () => `${await unsecured()}${'A'.repeat(86)}`],
  ['algorithm', 'HS256 with the public key as the secret', signWithPublicKey],
  ['signature', "an attacker's signature", signAsStranger],
  ['signature', 'the signature of another assertion', mixTwo],
  ['assertion', 'an empty signature', unsecured],
  ['assertion', 'text that is not a token', async () => 'not a.token'],
  ['assertion', 'more than 16 KiB', () => assert({ padding: 'x'.repeat(16 * 1024) })],
]

const header = () => ({ alg: 'ES256', kid: 'stranger', typ: 'oauth-id-jag+jwt' })

async function unsecured(): Promise<string> {
  const [, payload] = new UnsecuredJWT(fixture.claims()).encode().split('.')
  return `${Buffer.from(JSON.stringify({ ...header(), alg: 'none' })).toString('base64url')}.${payload}.`
}

async function signWithPublicKey(): Promise<string> {
  const { keys } = (await (await fetch(`${fixture.provider.issuer}/jwks`)).json()) as { keys: { kid: string }[] }
  const { kid } = decodeProtectedHeader(await assert())
  const publicKey = new TextEncoder().encode(JSON.stringify(keys[0]))
  return new SignJWT(fixture.claims())
    .setProtectedHeader({ ...header(), alg: 'HS256', kid: String(kid) })
    .sign(publicKey)
}

async function signAsStranger(): Promise<string> {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
  const { kid } = decodeProtectedHeader(await assert())
  // The header also contains the key, which the server must ignore.
  const withKey = { ...header(), kid: String(kid), jwk: await exportJWK(publicKey), jku: 'https://evil.example/jwks' }
  return new SignJWT(fixture.claims()).setProtectedHeader(withKey).sign(privateKey)
}

async function mixTwo(): Promise<string> {
  const [[head, body], [, , signature]] = [(await assert()).split('.'), (await assert()).split('.')] as [
    string[],
    string[],
  ]
  return `${head}.${body}.${signature}`
}

const makeShortRsa = () => generateKeyPairSync('rsa', { modulusLength: 1024 })
const makeEcdsa = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })

describe('refuses an assertion', () => {
  test.each(broken)('because of its %s: %s', async (reason, _, make) => {
    expect(await redeem(await make())).toEqual(invalidGrant)
    expect(fixture.refusals).toEqual([{ of: 'grant', reason }])
  })

  test.each([
    [59, 200],
    [61, 400],
  ])('only after 60 s of clock skew: status for one that expired %i s ago is %i', async (ago, status) => {
    const expiry = { iat: seconds() - 300, exp: seconds() - ago }
    expect(await redeem(await assert(expiry))).toMatchObject({ status })
  })

  test.each([
    { crit: ['b64'], b64: true },
    { crit: ['b64'], b64: false },
    { crit: ['unknown'], unknown: 1 },
  ])('with the critical header parameters %j', async (critical) => {
    const [, payload, signature] = (await assert()).split('.')
    const head = Buffer.from(JSON.stringify({ ...header(), ...critical })).toString('base64url')
    expect(await redeem(`${head}.${payload}.${signature}`)).toEqual(invalidGrant)
    expect(fixture.refusals).toEqual([{ of: 'grant', reason: 'critical_header' }])
  })

  test.each<[string, () => Record<'privateKey' | 'publicKey', KeyObject>, string, Partial<JWK>, RegExp?]>([
    ['a short RSA key', makeShortRsa, 'RS256', {}, /2048 bits/],
    ['an encryption key', makeEcdsa, 'ES256', { use: 'enc' }],
    ['a key for another algorithm', makeEcdsa, 'ES256', { alg: 'ES384' }],
    ['a key that is not for verifying', makeEcdsa, 'ES256', { key_ops: ['deriveBits'] }],
    ['a key that is not a point on its curve', makeEcdsa, 'ES256', { y: 'A'.repeat(43) }, /./],
    ['a key whose id another key also has', makeEcdsa, 'ES256', { kid: 'twice' }, /multiple matching keys/],
  ])('signed with %s, even if the provider publishes it', async (_, makeKeys, alg, traits, message) => {
    await using own = await setUp()
    const { privateKey, publicKey } = makeKeys()
    const { kid } = { kid: 'weak', ...traits }
    own.provider.publish({ ...makeEcdsa().publicKey.export({ format: 'jwk' }), kid: 'twice' } as JWK)
    own.provider.publish({ ...publicKey.export({ format: 'jwk' }), kid, ...traits } as JWK)
    const head = Buffer.from(JSON.stringify({ ...header(), alg, kid }))
    const signed = `${head.toString('base64url')}.${Buffer.from(JSON.stringify(own.claims())).toString('base64url')}`
    const signature = sign('sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' })
    const assertion = `${signed}.${signature.toString('base64url')}`
    expect(await answerOf(own.server.fetch(tokenRequest(assertion)))).toEqual(invalidGrant)
    const cause = message && { cause: expect.objectContaining({ message: expect.stringMatching(message) }) }
    expect(own.refusals).toEqual([{ of: 'grant', reason: 'unknown_key', ...cause }])
  })

  test('signed with a key that the provider published with its private part', async () => {
    await using own = await setUp()
    const { privateKey } = await generateKeyPair('ES256', { extractable: true })
    own.provider.publish({ ...(await exportJWK(privateKey)), kid: 'leaked' })
    const assertion = await new SignJWT(own.claims())
      .setProtectedHeader({ ...header(), kid: 'leaked' })
      .sign(privateKey)
    expect(await answerOf(own.server.fetch(tokenRequest(assertion)))).toEqual(invalidGrant)
    expect(own.refusals).toMatchObject([{ reason: 'unknown_key', cause: { code: 'ERR_JWKS_INVALID' } }])
  })
})

describe('an assertion signed with', () => {
  test.each(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'])(
    '%s is accepted',
    async (alg) => {
      await using own = await setUp(alg)
      expect(await answerOf(own.server.fetch(tokenRequest(await own.provider.sign(own.claims()))))).toMatchObject({
        status: 200,
      })
    },
    60_000,
  )

  test.each(['none', 'HS256', 'HS512', 'RS1', 'ML-DSA-44', 'toString', '__proto__'])('%s is refused', async (alg) => {
    const [head = '', payload, signature] = (await assert()).split('.')
    const changed = { ...JSON.parse(Buffer.from(head, 'base64url').toString()), alg }
    const encoded = Buffer.from(JSON.stringify(changed)).toString('base64url')
    expect(await redeem(`${encoded}.${payload}.${signature}`)).toEqual(invalidGrant)
    expect(fixture.refusals).toEqual([{ of: 'grant', reason: 'algorithm' }])
  })
})

describe('only accepts assertions and the JWT bearer grant', () => {
  test.each([
    ['an ID token', () => assert({ aud: 'shop', nonce: 'n' }, { typ: 'JWT' })],
    ['an ID token for this server', () => assert({}, { typ: undefined })],
    ['an access token of this server', async () => JSON.parse((await redeem(await assert())).body).access_token],
  ])('%s is an invalid grant', async (_, make) => {
    expect(await redeem(await make())).toEqual(invalidGrant)
  })

  test.each<[string, Record<string, string>]>([
    ['client_credentials', { grant_type: 'client_credentials' }],
    ['authorization_code', { grant_type: 'authorization_code', code: 'x' }],
    ['refresh_token', { grant_type: 'refresh_token', refresh_token: 'x' }],
    ['token exchange', { grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange' }],
    ['the JWT bearer grant in upper case', { grant_type: jwtBearer.toUpperCase() }],
    ['an empty string', { grant_type: '' }],
  ])('the grant type %s is not supported', async (_, fields) => {
    expect(await redeem(await assert(), fields)).toEqual(unsupportedGrantType)
    expect(fixture.refusals).toEqual([{ of: 'grant', reason: 'grant_type' }])
  })

  test('a missing grant type is not supported', async () => {
    const form = { assertion: await assert(), client_id: hub.clientId, client_secret: hub.clientSecret }
    expect(await answerOf(fixture.server.fetch(formRequest(form)))).toEqual(unsupportedGrantType)
  })
})

describe('a used assertion', () => {
  test('is refused by the same node as replayed, and later as expired', async () => {
    const assertion = await assert()
    expect(await redeem(assertion)).toMatchObject({ status: 200 })
    expect(await redeem(assertion)).toEqual(invalidGrant)
    fixture.time.now += 359_000
    expect(await redeem(assertion)).toEqual(invalidGrant)
    fixture.time.now += 2_000
    expect(await redeem(assertion)).toEqual(invalidGrant)
    expect(fixture.refusals.map(({ reason }) => reason)).toEqual(['replayed', 'replayed', 'expired'])
  })

  test('is refused by another node with the same store', async () => {
    const replays = rememberInMemory(() => fixture.time.now)
    const [first, second] = [fixture.another({ replays }), fixture.another({ replays })]
    const assertion = await assert()
    expect(await redeem(assertion, {}, first)).toMatchObject({ status: 200 })
    expect(await redeem(assertion, {}, second)).toEqual(invalidGrant)
    expect(fixture.refusals).toEqual([{ of: 'grant', reason: 'replayed' }])
  })

  test('is accepted once out of fifty concurrent requests', async () => {
    const assertion = await assert()
    const answers = await Promise.all(Array.from({ length: 50 }, () => redeem(assertion)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  })

  test('blocks its jti for other assertions of the same provider', async () => {
    const jti = randomUUID()
    expect(await redeem(await assert({ jti }))).toMatchObject({ status: 200 })
    expect(await redeem(await assert({ jti, sub: 'bob', exp: seconds() + 600 }))).toEqual(invalidGrant)
  })

  test('is refused, like all assertions, while the store is unavailable', async () => {
    const cause = new Error('connection lost')
    const server = fixture.another({ replays: { claim: () => Promise.reject(cause) } })
    expect(await redeem(await assert(), {}, server)).toEqual(invalidGrant)
    expect(fixture.refusals).toEqual([{ of: 'grant', reason: 'replay_store_unreachable', cause }])
  })

  test('is not used up by a refused request', async () => {
    const assertion = await assert()
    expect(await redeem(assertion, { client_secret: 'wrong' })).toEqual(invalidGrant)
    expect(await redeem(assertion)).toMatchObject({ status: 200 })
  })
})

describe('a client', () => {
  test.each<[string, Record<string, string>, Record<string, string>?]>([
    ['with a wrong secret', { client_secret: 'wrong' }],
    ['with a prefix of its secret', { client_secret: hub.clientSecret.slice(0, -1) }],
    ['with extra characters after its secret', { client_secret: `${hub.clientSecret}x` }],
    ['without a secret', { client_secret: '' }],
    ['that is unknown', { client_id: 'another' }],
    ['without an id', { client_id: '' }],
    ['with the id __proto__', { client_id: '__proto__' }],
    ['that authenticates twice', {}, { authorization: `Basic ${btoa('hub:the+secret+of%3A+the+hub')}` }],
    ['with another client id in the form', { client_id: 'another', client_secret: '' }, basic('hub', hub.clientSecret)],
    ['with an invalid Basic header', { client_secret: '' }, { authorization: 'Basic ?' }],
    ['with a Basic header without a colon', { client_secret: '' }, { authorization: `Basic ${btoa('hub')}` }],
    ['with a Bearer header', { client_secret: '' }, { authorization: 'Bearer x' }],
  ])('%s is refused', async (_, fields, headers) => {
    const form = { grant_type: jwtBearer, assertion: await assert(), ...credentials, ...fields }
    expect(await answerOf(fixture.server.fetch(formRequest(form, headers)))).toEqual(invalidGrant)
    expect(fixture.refusals).toEqual([{ of: 'grant', reason: 'client' }])
  })

  test('can only present assertions of its own identity provider', async () => {
    await using other = await setUp()
    const otherHub = { clientId: 'other', clientSecret: 'the secret of the other', issuer: other.provider.issuer }
    const server = fixture.another({ hubs: [{ ...hub, issuer: fixture.provider.issuer }, otherHub] })
    const claims = fixture.claims({ iss: other.provider.issuer })
    expect(await redeem(await other.provider.sign(claims), {}, server)).toEqual(invalidGrant)
    const asOther = { client_id: 'other', client_secret: otherHub.clientSecret }
    const theirs = await other.provider.sign({ ...claims, client_id: 'other' })
    expect(await redeem(theirs, asOther, server)).toMatchObject({ status: 200 })
    expect(fixture.refusals).toEqual([{ of: 'grant', reason: 'issuer' }])
  })

  test('can only request this resource and its scopes', async () => {
    expect(await redeem(await assert(), { resource })).toMatchObject({ status: 200 })
    expect(await redeem(await assert(), { resource: 'https://other.example.com' })).toEqual(invalidGrant)
    expect(await redeem(await assert(), { scope: 'admin' })).toEqual(invalidGrant)
    expect(await redeem(await assert({ scope: undefined }), { scope: 'admin' })).toEqual(invalidGrant)
    expect(fixture.refusals.map(({ reason }) => reason)).toEqual(['requested_resource', 'scope', 'scope'])
  })
})

const credentials = { client_id: hub.clientId, client_secret: hub.clientSecret }

function basic(id: string, secret: string): Record<string, string> {
  return { authorization: `Basic ${btoa(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`)}` }
}

describe('a form', () => {
  const post = (body: string, type?: string) =>
    answerOf(
      fixture.server.fetch(
        new Request('https://tools.example.com/oauth/token', {
          method: 'POST',
          body,
          headers: type ? { 'content-type': type } : {},
        }),
      ),
    )
  const formType = 'application/x-www-form-urlencoded'
  const goodForm = async () =>
    new URLSearchParams({ grant_type: jwtBearer, assertion: await assert(), ...credentials }).toString()

  test('can declare its character set', async () => {
    expect(await post(await goodForm(), `${formType}; charset=UTF-8`)).toMatchObject({ status: 200 })
  })

  test.each<[string, (form: string) => string, string?]>([
    ['of another type', (form) => form, 'application/json'],
    ['of a type with the same prefix', (form) => form, `${formType}x`],
    ['of type text/plain', (form) => form, 'text/plain'],
    ['that is too long', (form) => `${form}&padding=${'x'.repeat(32 * 1024)}`, formType],
    ['with two grant types', (form) => `${form}&grant_type=${jwtBearer}`, formType],
    ['with two assertions', (form) => `${form}&assertion=x`, formType],
    ['with a repeated unknown field', (form) => `${form}&a=1&a=1`, formType],
    ['that contains JSON', () => '{"grant_type":"x"}', formType],
    ['that is empty', () => '', formType],
  ])('%s is refused with unsupported_grant_type', async (_, change, type) => {
    expect(await post(change(await goodForm()), type)).toEqual(unsupportedGrantType)
  })

  test('must be sent with POST', async () => {
    const response = await fixture.server.fetch(new Request('https://tools.example.com/oauth/token?grant_type=x'))
    expect([response?.status, response?.headers.get('allow'), await response?.text()]).toEqual([405, 'POST', ''])
  })
})

describe('refuses every mutation of an assertion', () => {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const place = fc.nat(10_000)
  const character = fc.constantFrom(...alphabet, '.', '=', ' ', '+', '/', '\n', '%', '\0', 'é')
  const mutations = fc.oneof(
    fc.tuple(place, character).map(
      ([at, by]) =>
        (text: string) =>
          text.slice(0, at % text.length) + by + text.slice((at % text.length) + 1),
    ),
    fc.tuple(place, character).map(
      ([at, by]) =>
        (text: string) =>
          text.slice(0, at % text.length) + by + text.slice(at % text.length),
    ),
    place.map((at) => (text: string) => text.slice(0, at % text.length) + text.slice((at % text.length) + 1)),
    place.map((at) => (text: string) => text.slice(0, at % text.length)),
    // The last character of each part, where base64url can have spare bits.
    fc.tuple(fc.nat(2), fc.constantFrom(...alphabet)).map(([part, by]) => (text: string) => {
      const parts = text.split('.')
      parts[part] = `${parts[part]?.slice(0, -1)}${by}`
      return parts.join('.')
    }),
  )

  test.each(['RS256', 'PS256', 'ES256', 'EdDSA'])('signed with %s', async (alg) => {
    await using own = await setUp(alg)
    const assertion = await own.provider.sign(own.claims())
    const answer = (text: string) => answerOf(own.server.fetch(tokenRequest(text)))
    await fc.assert(
      fc.asyncProperty(mutations, async (mutate) => {
        const mutated = mutate(assertion)
        fc.pre(mutated !== assertion)
        expect(await answer(mutated)).toEqual(invalidGrant)
      }),
      { numRuns: 300 },
    )
    expect(await answer(assertion)).toMatchObject({ status: 200 })
  })
})
