import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { decodeJwt, decodeProtectedHeader, importJWK, type JWK, SignJWT } from 'jose'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Refusal } from './refusals.ts'
import { createTransactionTokens, createTransactionVerifier } from './transaction-tokens.ts'

const issuer = 'https://tools.example.com/mcp'
const audience = 'https://orders.internal'
const now = 1_763_640_000
const caller = {
  subject: 'ann',
  issuer: 'https://idp.example.com',
  clientId: 'hub',
  scopes: ['mcp:tools:call'],
  email: 'ann@example.com',
  roles: ['buyer'],
}
const makeKey = () => ({
  ...(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }) as JWK),
  kid: randomUUID(),
})
const key = makeKey()
const tokens = createTransactionTokens({ issuer, key, clock: () => now * 1000 })

const refusals: Refusal[] = []
let time = now
let verify: ReturnType<typeof createTransactionVerifier>['verify']
beforeAll(async () => {
  const jwks = await tokens.jwks()
  const options = { issuer, audience, jwks, clock: () => time * 1000 }
  verify = createTransactionVerifier({ ...options, onRefusal: (refusal) => void refusals.push(refusal) }).verify
})
beforeEach(() => {
  refusals.length = 0
  time = now
})

const request = { audience, operation: 'orders.cancel', caller, details: { order: '1042' } }
const carry = (token: string | string[]) => ({ headers: { 'txn-token': token } })

test('a token contains the user, the service, the operation and an expiry, but nothing of the access token', async () => {
  const token = await tokens.mint(request)
  expect(decodeProtectedHeader(token)).toEqual({ alg: 'ES256', typ: 'txntoken+jwt', kid: key.kid })
  expect(decodeJwt(token)).toEqual({
    iss: issuer,
    aud: audience,
    sub: 'ann',
    scope: 'orders.cancel',
    txn: expect.any(String),
    req_wl: issuer,
    iat: now,
    exp: now + 30,
    tctx: {
      issuer: 'https://idp.example.com',
      clientId: 'hub',
      email: 'ann@example.com',
      roles: ['buyer'],
      order: '1042',
    },
  })
  expect(await verify(carry(token), 'orders.cancel')).toEqual({
    ok: true,
    transaction: {
      id: decodeJwt(token).txn,
      subject: 'ann',
      operation: 'orders.cancel',
      context: decodeJwt(token).tctx,
    },
  })
  expect(
    await verify(new Request('https://orders.internal', carry(token) as RequestInit), 'orders.cancel'),
  ).toMatchObject({
    ok: true,
  })
})

test('details cannot replace properties of the caller', async () => {
  const token = await tokens.mint({ ...request, details: { email: 'eve@example.com' } })
  expect(decodeJwt(token).tctx).toMatchObject({ email: 'ann@example.com' })
})

test('only the public key is published', async () => {
  const { keys } = await tokens.jwks()
  expect(keys).toEqual([{ kty: 'EC', crv: 'P-256', x: key.x, y: key.y, alg: 'ES256', kid: key.kid, use: 'sig' }])
})

test.each([
  ['Ed25519', generateKeyPairSync('ed25519').privateKey, 'EdDSA'],
  ['RSA', generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey, 'RS256'],
])('a key can be %s, and its thumbprint is the default key id', async (_, privateKey, alg) => {
  const own = createTransactionTokens({ issuer, key: privateKey.export({ format: 'jwk' }) as JWK })
  const verifier = createTransactionVerifier({ issuer, audience, jwks: await own.jwks() })
  const token = await own.mint(request)
  expect(decodeProtectedHeader(token)).toMatchObject({ alg, kid: expect.stringMatching(/^[\w-]{43}$/) })
  expect(await verifier.verify(carry(token), 'orders.cancel')).toMatchObject({ ok: true })
})

test.each<[string, Partial<typeof request> & { lifetime?: number }, string]>([
  ['no service', { audience: '' }, 'one service'],
  ['no operation', { operation: '' }, 'one operation'],
  ['two operations', { operation: 'orders.cancel orders.read' }, 'one operation'],
  ['a lifetime of 0', { lifetime: 0 }, '1 to 300'],
  ['too long a lifetime', { lifetime: 301 }, '1 to 300'],
  ['a lifetime that is not a number', { lifetime: Number.NaN }, '1 to 300'],
])('mint throws for %s', async (_, changes, message) => {
  await expect(tokens.mint({ ...request, ...changes })).rejects.toThrow(message)
})

test.each<[string, JWK]>([
  ['a public', { ...key, d: undefined } as unknown as JWK],
  ['a symmetric', { kty: 'oct', k: 'c2VjcmV0' }],
])('%s key can’t create tokens', async (_, wrong) => {
  await expect(createTransactionTokens({ issuer, key: wrong }).mint(request)).rejects.toThrow('a private key')
})

/** A token as the tool server would sign it, except for the changes. */
async function forge(claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}, by: JWK = key) {
  const payload = decodeJwt(await tokens.mint(request))
  return new SignJWT({ ...payload, ...claims })
    .setProtectedHeader({ alg: 'ES256', typ: 'txntoken+jwt', kid: key.kid, ...header })
    .sign(await importJWK(by, 'ES256'), { crit: { unknown: false } })
}

/** Uses the public key as the secret of an HMAC. */
async function signWithPublicKey(): Promise<string> {
  const secret = new TextEncoder().encode(JSON.stringify((await tokens.jwks()).keys[0]))
  const header = { alg: 'HS256', typ: 'txntoken+jwt', kid: key.kid }
  return new SignJWT(decodeJwt(await tokens.mint(request))).setProtectedHeader(header).sign(secret)
}

/** Changes the spare bits of the last character: 64 bytes leave four of them. */
function respell(token: string): string {
  const other = { A: 'B', Q: 'R', g: 'h', w: 'x' }[token.slice(-1)]
  return `${token.slice(0, -1)}${other}`
}

describe('refuses a token', () => {
  const invalid = { status: 401, headers: { 'content-type': 'application/json' }, body: '{"error":"invalid_token"}' }
  const insufficient = { ...invalid, status: 403, body: '{"error":"insufficient_scope"}' }

  test.each<[string, string, () => Promise<string | string[]>]>([
    ['issuer', 'another iss', () => forge({ iss: 'https://evil.example' })],
    ['issuer', 'another workload', () => forge({ req_wl: 'https://evil.example' })],
    ['audience', 'another service', () => tokens.mint({ ...request, audience: 'https://stock.internal' })],
    ['audience', 'two services', () => forge({ aud: [audience, 'https://stock.internal'] })],
    ['subject', 'no sub', () => forge({ sub: undefined })],
    ['transaction', 'no txn', () => forge({ txn: undefined })],
    ['expired', 'no exp', () => forge({ exp: undefined })],
    ['expired', 'exp 6 s ago', () => forge({ iat: now - 36, exp: now - 6 })],
    ['issued_at', 'no iat', () => forge({ iat: undefined })],
    ['issued_at', 'iat 6 s ahead', () => forge({ iat: now + 6, exp: now + 36 })],
    ['lifetime', 'more than five minutes', () => forge({ exp: now + 301 })],
    ['type', 'the type of an access token', () => forge({}, { typ: 'at+jwt' })],
    ['unknown_key', 'an unknown key', () => forge({}, { kid: 'another' })],
    ['signature', "an attacker's key", () => forge({}, {}, makeKey())],
    ['critical_header', 'a critical header', () => forge({}, { crit: ['unknown'], unknown: 1 })],
    ['type', 'a symmetric signature', signWithPublicKey],
    ['format', 'a signature in another encoding', async () => respell(await forge())],
    ['format', 'more than 16 KiB', () => forge({ padding: 'x'.repeat(16 * 1024) })],
    ['format', 'text that is not a token', async () => 'x.y.z'],
    ['not_one', 'no header', async () => ''],
    ['not_one', 'two headers', async () => [await forge(), await forge()]],
    ['not_one', 'two tokens in one header', async () => `${await forge()}, ${await forge()}`],
  ])('because of %s: %s', async (reason, _, make) => {
    expect(await verify(carry(await make()), 'orders.cancel')).toEqual({ ok: false, answer: invalid })
    expect(refusals).toEqual([{ of: 'transaction', reason }])
  })

  test.each(['orders.read', 'orders.cancel orders.read', 'orders.cancel.all'])('for the scope %s', async (scope) => {
    expect(await verify(carry(await forge({ scope })), 'orders.cancel')).toEqual({ ok: false, answer: insufficient })
    expect(refusals).toEqual([{ of: 'transaction', reason: 'operation' }])
  })

  test('only after 5 s of clock skew', async () => {
    const token = await tokens.mint(request)
    time = now + 34
    expect(await verify(carry(token), 'orders.cancel')).toMatchObject({ ok: true })
  })
})
