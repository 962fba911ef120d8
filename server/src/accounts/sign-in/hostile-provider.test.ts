import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWTHeaderParameters, SignJWT } from 'jose'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'

/** A sign-in provider that answers as a test wants. By default, it signs Ann in. */

const clientSecret = 'secret-of-inlay-at-the-provider'
const returnTo = '/oauth/interaction/one'

interface Behaviour {
  /** Replaces its answer at a path. */
  instead: Record<string, (response: ServerResponse) => unknown>
  metadata: object
  header: JWTHeaderParameters | { alg: 'HS256' | 'none' }
  claims: object
  tokens: object
  userinfo: object
  /** The query of the callback, beside `state`. */
  callback: [string, string][]
}

const server = createServer(async (request, response) => {
  const path = request.url?.split('?')[0] ?? ''
  const send = (body: unknown) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
  if (behaviour.instead[path]) return behaviour.instead[path](response)
  switch (path) {
    case '/.well-known/openid-configuration':
      return send({ ...describeProvider(), ...behaviour.metadata })
    case '/jwks':
      return send({ keys: [{ ...(await exportJWK(known.publicKey)), kid: 'known', alg: 'RS256' }] })
    case '/token':
      return send({ access_token: 'access', token_type: 'Bearer', id_token: await sign(), ...behaviour.tokens })
    case '/userinfo':
      return send({ sub: 'ann', email: 'ann@example.com', ...behaviour.userinfo })
    default:
      return response.writeHead(404).end()
  }
})
let issuer = ''
let app: TestService
let behaviour: Behaviour
let nonce = ''
const known = await generateKeyPair('RS256', { extractable: true })
const strange = await generateKeyPair('RS256', { extractable: true })

const describeProvider = () => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  jwks_uri: `${issuer}/jwks`,
  userinfo_endpoint: `${issuer}/userinfo`,
  response_types_supported: ['code'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['RS256'],
  authorization_response_iss_parameter_supported: true,
})

async function sign(): Promise<string> {
  const now = Math.floor(app.clock.now / 1000)
  const claims = { iss: issuer, aud: 'inlay', sub: 'ann', email: 'ann@example.com', iat: now, exp: now + 60, nonce }
  const payload = { ...claims, ...behaviour.claims }
  const { header } = behaviour
  if (header.alg === 'none') {
    const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
    return `${encode(header)}.${encode(payload)}.`
  }
  const key =
    header.alg === 'HS256'
      ? Buffer.from(clientSecret)
      : 'kid' in header && header.kid === 'known'
        ? known.privateKey
        : strange.privateKey
  return new SignJWT(payload).setProtectedHeader(header).sign(key)
}

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})
beforeEach(async () => {
  const header = { alg: 'RS256', kid: 'known' }
  behaviour = { instead: {}, metadata: {}, header, claims: {}, tokens: {}, userinfo: {}, callback: [] }
  behaviour.callback = [
    ['code', 'one'],
    ['iss', issuer],
  ]
  app = await startTestService({
    SIGN_IN_ISSUER: issuer,
    SIGN_IN_CLIENT_ID: 'inlay',
    SIGN_IN_CLIENT_SECRET: clientSecret,
  })
})
afterEach(() => app.close())

/** Resolves to the last response: of the way to the provider, or of the way back. */
async function signIn(): Promise<{ status: number; location: string; text: string; isBack: boolean }> {
  const read = async (response: Response, isBack: boolean) => ({
    status: response.status,
    location: response.headers.get('location') ?? '',
    text: await response.text(),
    isBack,
  })
  const left = await app.fetch(`/sign-in/external?${new URLSearchParams({ return_to: returnTo })}`)
  if (left.status !== 302) return read(left, false)
  const address = new URL(left.headers.get('location') ?? '')
  expect(address.origin).toBe(issuer)
  nonce = address.searchParams.get('nonce') ?? ''
  const cookie = left.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const search = new URLSearchParams([['state', address.searchParams.get('state') ?? ''], ...behaviour.callback])
  return read(await app.fetch(`/sign-in/callback?${search}`, { headers: { cookie } }), true)
}

const users = async () =>
  (await app.service.database.asService((sql) => sql`select from users where issuer = ${issuer}`)).length

test('that behaves signs users in', async () => {
  expect(await signIn()).toMatchObject({ status: 302, location: expect.stringContaining('handoff=') })
  expect(await users()).toBe(1)
})

type Change = () => Partial<Behaviour>
const at =
  (path: string, answer: (response: ServerResponse) => unknown): Change =>
  () => ({ instead: { [path]: answer } })
const metadata =
  (fields: () => object): Change =>
  () => ({ metadata: fields() })
const claims =
  (fields: () => object): Change =>
  () => ({ claims: fields() })
const tokens =
  (fields: object): Change =>
  () => ({ tokens: fields })
const callback =
  (...query: [string, () => string][]): Change =>
  () => ({
    callback: query.map(([name, value]) => [name, value()]),
  })
const discovery = '/.well-known/openid-configuration'
const json = (response: ServerResponse, text: string) =>
  response.setHeader('content-type', 'application/json').end(text)
const tooMuch = (response: ServerResponse) => json(response, `{"a":"${'x'.repeat(4 * 1024 * 1024)}"}`)
const elsewhere = (response: ServerResponse) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()
const code = ['code', () => 'one'] as [string, () => string]

describe('that doesn’t is refused with a page, and creates no user, if', () => {
  test.each<[string, Change]>([
    ['its metadata has another issuer', metadata(() => ({ issuer: 'https://other.example' }))],
    ['its metadata has no authorization endpoint', metadata(() => ({ authorization_endpoint: undefined }))],
    ['its authorization endpoint is a script', metadata(() => ({ authorization_endpoint: 'javascript:alert(1)//' }))],
    ['its authorization endpoint is a file', metadata(() => ({ authorization_endpoint: 'file:///etc/passwd' }))],
    ['its authorization endpoint is a number', metadata(() => ({ authorization_endpoint: 7 }))],
    ['its metadata is a redirect', at(discovery, elsewhere)],
    ['its metadata is too large', at(discovery, tooMuch)],
    ['its metadata is a list', at(discovery, (response) => json(response, '[]'))],
    ['its metadata is null', at(discovery, (response) => json(response, 'null'))],
    ['its metadata is nested deeply', at(discovery, (response) => json(response, '['.repeat(200_000)))],
    ['it has no token endpoint', metadata(() => ({ token_endpoint: undefined }))],
    ['its token endpoint is a file', metadata(() => ({ token_endpoint: 'file:///etc/passwd' }))],
    ['its token endpoint redirects', at('/token', elsewhere)],
    ['its tokens are too large', at('/token', tooMuch)],
    ['its tokens are a list', at('/token', (response) => json(response, '[]'))],
    ['its tokens are HTML', at('/token', (response) => response.setHeader('content-type', 'text/html').end('<p>Hi'))],
    ['it has no keys', metadata(() => ({ jwks_uri: undefined }))],
    ['its keys redirect', at('/jwks', elsewhere)],
    ['its keys are too large', at('/jwks', tooMuch)],
    ['its keys are null', at('/jwks', (response) => json(response, '{"keys":null}'))],
    ['the response names another issuer', callback(code, ['iss', () => 'https://other.example'])],
    ['the response names no issuer, although it says that it does', callback(code)],
    ['the response names two issuers', callback(code, ['iss', () => issuer], ['iss', () => 'https://other.example'])],
    ['the response has no code', callback(['iss', () => issuer])],
    ['the response has two codes', callback(code, ['code', () => 'two'], ['iss', () => issuer])],
    ['the response has a code and an error', callback(code, ['error', () => 'x'], ['iss', () => issuer])],
    ['the response has tokens', callback(['id_token', () => 'x'], ['access_token', () => 'x'], ['iss', () => issuer])],
    ['the ID token isn’t signed', () => ({ header: { alg: 'none' } })],
    ['the ID token is signed with the client secret', () => ({ header: { alg: 'HS256' } })],
    ['the ID token is signed with another key', () => ({ header: { alg: 'RS256', kid: 'other' } })],
    ['the ID token brings its key along', () => ({ header: { alg: 'RS256', jwk: {}, jku: `${issuer}/jwks` } })],
    ['there is no ID token', tokens({ id_token: undefined })],
    ['the ID token is an object', tokens({ id_token: {} })],
    ['the access token is a number', tokens({ access_token: 7 })],
    ['the tokens are of an unknown type', tokens({ token_type: 'mac' })],
    ['the ID token is another issuer’s', claims(() => ({ iss: 'https://other.example' }))],
    ['the ID token is for another client', claims(() => ({ aud: 'other' }))],
    [
      'the ID token is also for another client, which it was issued to',
      claims(() => ({ aud: ['inlay', 'x'], azp: 'x' })),
    ],
    ['the ID token has another nonce', claims(() => ({ nonce: 'other' }))],
    ['the ID token has no nonce', claims(() => ({ nonce: undefined }))],
    ['the ID token has expired', claims(() => ({ exp: Math.floor(app.clock.now / 1000) - 120 }))],
    ['the ID token never expires', claims(() => ({ exp: undefined }))],
    ['the ID token has no subject', claims(() => ({ sub: undefined }))],
    ['the subject is a number', claims(() => ({ sub: 7 }))],
    ['the subject is empty', claims(() => ({ sub: '' }))],
    ['the address is a list', claims(() => ({ email: ['ann@example.com'] }))],
    [
      'its information about the user is about another one',
      () => ({ claims: { email: undefined }, userinfo: { sub: 'bob', email: 'bob@example.com' } }),
    ],
  ])('%s', async (_, change) => {
    Object.assign(behaviour, change())
    const { status, location, text } = await signIn()
    expect([502, 503, 403], text).toContain(status)
    expect(location).toBe('')
    expect(text).toContain('Try again')
    expect(text + app.logged()).not.toContain(clientSecret)
    expect(await users()).toBe(0)
  })
})
