import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { CompactSign, type CryptoKey, exportJWK, generateKeyPair } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { readIdentity } from '../../accounts/users/users.ts'
import { IdTokenRefused, verifyIdToken } from './id-tokens.ts'
import { createIssuerKeys } from './issuer-keys.ts'

let app: TestService
let signingKey: CryptoKey
/** The keys that the provider publishes, and whether it responds. */
let published: unknown[]
let isUp = true
let issuer: string
const server = createServer((request, response) => {
  if (!isUp) return response.writeHead(503).end()
  const document = { issuer, jwks_uri: `${issuer}/keys` }
  return response.end(JSON.stringify(request.url === '/keys' ? { keys: published } : document))
})

beforeAll(async () => {
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  signingKey = privateKey
  published = [{ ...(await exportJWK(publicKey)), kid: 'first' }]
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  app = await startTestService()
})
afterAll(async () => {
  await app.close()
  server.close()
})
beforeEach(() => {
  isUp = true
})

const now = () => Math.floor(app.clock.now / 1000)
const sign = (payload: string | Uint8Array) =>
  new CompactSign(typeof payload === 'string' ? new TextEncoder().encode(payload) : payload)
    .setProtectedHeader({ alg: 'ES256', kid: 'first' })
    .sign(signingKey)
const make = (claims: Record<string, unknown> = {}) =>
  sign(JSON.stringify({ iss: issuer, aud: 'shop', sub: 'ann', exp: now() + 600, ...claims }))

const trusted = () => ({ issuer, audiences: ['shop'] })
const verify = (token: string, keys = createIssuerKeys(app.service)) =>
  verifyIdToken(token, { trusted: trusted(), keys, now: app.clock.now })
const refused = async (token: string) => {
  const error = await verify(token).catch((reason) => reason)
  expect(error).toBeInstanceOf(IdTokenRefused)
  return error as IdTokenRefused
}

test.each([
  ['from Entra ID', { xms_edov: true }, true],
  ['from Entra ID', {}, false],
])('an address in a token %s with %j is verified: %s', async (_, claims, expected) => {
  const entra = 'https://login.microsoftonline.com/72f988bf-86f1-41af-91ab-2d7cd011db47/v2.0'
  // Provides the key directly, because tests can't reach Microsoft.
  const { key } = await createIssuerKeys(app.service).find(trusted(), 'first', 'ES256')
  const keys = { find: async () => ({ issuer: entra, key }) }
  const token = await make({ iss: entra, email: 'ann@example.com', ...claims })
  const identity = await verifyIdToken(token, {
    trusted: { issuer: entra, audiences: ['shop'] },
    keys,
    now: app.clock.now,
  })
  expect(identity).toMatchObject({ email: 'ann@example.com', email_verified: expected })
  expect(readIdentity(entra, { sub: 'ann', email: 'ann@example.com', ...claims })?.email_verified).toBe(expected)
})

describe('text that the database can’t store', () => {
  test.each<[string, () => Promise<string>]>([
    ['NUL in the subject', () => make({ sub: 'a\0b' })],
    ['NUL in the address', () => make({ email: 'a\0@example.com' })],
    ['NUL deep in a profile claim', () => make({ address: { lines: ['a', { b: 'c\0' }] } })],
    ['NUL in the name of a claim', () => make({ 'a\0': 1 })],
    ['a lone surrogate in the subject', () => make({ sub: 'a\ud800' })],
    ['a lone surrogate in a profile claim', () => make({ name: '\udc00' })],
    ['bytes that are not UTF-8', () => sign(Buffer.from('{"sub":"a\xff"}', 'latin1'))],
  ])('is rejected, and not with a 500: %s', async (_, token) => {
    expect((await refused(await token())).step).toBe('format')
    const admin = await app.tokenFor('admin@demo.test', 'demo')
    const body = { idp_type: 'custom_oidc', idp_issuer: issuer, allowed_audiences: ['shop'] }
    await app.request('PATCH', '/identity-providers/config', { token: admin, body })
    const key = await app.request('POST', '/publishable-keys', { token: admin, body: { name: 'Key' } })
    const answer = await app.request('POST', '/auth/pk-ticket', {
      body: { publishable_key: key.body.key, id_token: await token() },
    })
    expect([answer.status, answer.body.code]).toEqual([401, 'INVALID_TOKEN'])
  })

  test('is escaped for the administrator if it is in a key id', async () => {
    const [, payload, signature] = (await make()).split('.')
    const header = Buffer.from(JSON.stringify({ alg: 'ES256', kid: `\0${'x'.repeat(1_000)}` })).toString('base64url')
    const { step, seen } = await refused([header, payload, signature].join('.'))
    expect(step).toBe('key')
    expect(seen).toMatch(/^\\u0000x{194}$/)
  })

  test.each<[string, string]>([
    ['a duplicate claim', '{"sub":"ann","sub":"bob"}'],
    ['an array', '["ann"]'],
    ['something other than JSON', 'ann'],
  ])('%s is rejected', async (_, payload) => {
    expect((await refused(await sign(payload))).step).toBe('format')
  })
})

test.each([(token: string) => `${token}=`, (token: string) => `${token}~`, (token: string) => `=${token}`])(
  'a token has only one encoding: %s',
  async (spell) => {
    expect((await refused(spell(await make()))).step).toBe('format')
  },
)

test('accepts only one of the signatures that decode to the same bytes', async () => {
  const token = await make()
  const last = token.at(-1) ?? ''
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  // 64 bytes leave four unused bits in the last character.
  const twin = alphabet[alphabet.indexOf(last) ^ 1] ?? ''
  expect((await refused(token.slice(0, -1) + twin)).step).toBe('format')
  expect((await verify(token)).subject).toBe('ann')
})

describe('the stored claims', () => {
  const metadataOf = async (claims: Record<string, unknown>) => JSON.parse((await verify(await make(claims))).metadata)

  test('are at most 8 KiB, the smallest first, in their original order', async () => {
    const groups = Array.from({ length: 900 }, (_, n) => `group-${n}`)
    expect(await metadataOf({ groups, name: 'Ann', plan: 'gold' })).toEqual({ name: 'Ann', plan: 'gold' })
    const claims = { b: 'x'.repeat(3_000), a: 'y'.repeat(3_900), name: 'Ann' }
    expect(await metadataOf(claims)).toEqual(claims)
    expect(await metadataOf({ ...claims, c: 'z'.repeat(4_200) })).toEqual(claims)
    const { metadata } = await verify(await make({ long: 'ü'.repeat(4_080), name: 'Ann' }))
    expect(Buffer.byteLength(metadata)).toBeLessThanOrEqual(8 * 1024)
  })

  test('do not include an address that is too long to be valid', async () => {
    expect((await verify(await make({ email: `${'a'.repeat(309)}@example.com` }))).email).toBe('')
    expect((await verify(await make({ email: `${'A'.repeat(308)}@example.com` }))).email).toHaveLength(320)
  })
})

describe('the expiry', () => {
  test.each([1e300, 253_402_300_800, 1_900_000_000_000])('%d is not a time in seconds', async (exp) => {
    expect(await refused(await make({ exp }))).toMatchObject({
      step: 'expiry',
      message: 'The token’s expiry is not a time in seconds',
    })
  })

  test.each(['"1"', 'null', '1e400'])('%s is rejected', async (exp) => {
    const payload = `{"iss":"${issuer}","aud":"shop","sub":"ann","exp":${exp}}`
    expect((await refused(await sign(payload))).step).toBe('expiry')
  })

  test('is at most a day after the verification', async () => {
    const day = 24 * 60 * 60
    const expiresAt = async (exp: number) => (await verify(await make({ exp }))).expires_at
    expect(await expiresAt(now() + 600)).toBe((now() + 600) * 1000)
    expect(await expiresAt(now() + 600.5)).toBe((now() + 600) * 1000 + 500)
    expect(await expiresAt(now() + 2 * day)).toBe(app.clock.now + day * 1000)
    expect(await expiresAt(253_402_300_799)).toBe(app.clock.now + day * 1000)
  })
})

describe('a key that the provider withdraws', () => {
  const minute = 60_000

  test('is accepted for five more minutes', async () => {
    const keys = createIssuerKeys(app.service)
    const token = await make({ exp: now() + 7_200 })
    const before = published
    await verify(token, keys)
    published = []
    app.clock.now += 5 * minute - 1
    await expect(verify(token, keys)).resolves.toMatchObject({ subject: 'ann' })
    app.clock.now += 1
    await expect(verify(token, keys)).rejects.toMatchObject({ step: 'key' })
    published = before
  })

  test('is accepted for an hour while the provider is down', async () => {
    const keys = createIssuerKeys(app.service)
    const token = await make({ exp: now() + 7_200 })
    await verify(token, keys)
    isUp = false
    app.clock.now += 60 * minute - 1
    await expect(verify(token, keys)).resolves.toMatchObject({ subject: 'ann' })
    app.clock.now += 31_000
    await expect(verify(token, keys)).rejects.toMatchObject({ step: 'provider_status' })
  })
})
