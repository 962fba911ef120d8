import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { decodeJwt, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { startTestProvider, type TestProvider } from '../../../test/oidc-provider.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { generateKey } from '../publishable-keys/key-format.ts'

const origin = 'https://shop.example.com'
const minute = 60_000

let app: TestService
let admin: string
beforeAll(async () => {
  app = await startTestService()
  admin = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

async function makeKey(
  body: Record<string, unknown> = {},
  on = app,
  token = admin,
): Promise<{ id: string; key: string }> {
  return (await on.request('POST', '/publishable-keys', { token, body: { name: 'Widget', ...body } })).body
}

const exchange = (body: unknown, headers: Record<string, string> = {}, on = app) =>
  on.request('POST', '/auth/pk-ticket', { body, headers })

const refusal = (status: number, code: string, message: string, data = {}) => ({
  defined: true,
  code,
  status,
  message,
  data: { code, ...data },
})
const invalidKey = refusal(401, 'INVALID_KEY', 'The publishable key is not valid')
const originNotAllowed = refusal(403, 'ORIGIN_NOT_ALLOWED', 'This origin may not use the publishable key')

describe('a key alone', () => {
  test('returns an anonymous ticket for the key’s organization', async () => {
    const { id, key } = await makeKey()
    const { body } = await exchange({ publishable_key: key })
    expect(body).toEqual({
      ticket: expect.stringMatching(/^[\w.-]{100,}$/),
      userId: id,
      orgId: await app.organization('demo'),
      expiresAt: app.clock.now + 60_000,
      expiresIn: 60,
    })
  })

  test('returns a ticket that is bound to the organization, the key and the origin', async () => {
    const { id, key } = await makeKey({ allowed_origins: [origin] })
    const { body } = await exchange({ publishable_key: key }, { origin })
    const holder = await app.service.tickets.redeem(body.ticket)
    expect(holder).toMatchObject({ organization_id: body.orgId, publishable_key_id: id, origin })
  })

  test('records when it was last used', async () => {
    const { id, key } = await makeKey()
    await Promise.all(Array.from({ length: 20 }, () => exchange({ publishable_key: key })))
    await app.service.activity.flush()
    const { keys } = (await app.request('GET', '/publishable-keys', { token: admin })).body
    expect(keys.find((entry: { id: string }) => entry.id === id).last_used_at).toBe(
      new Date(app.clock.now).toISOString(),
    )
  })
})

describe('the body', () => {
  test.each([
    ['{}', 'publishable_key'],
    ['null', ''],
    ['[]', ''],
    ['not json', ''],
    ['', ''],
    ['{"publishable_key":1}', 'publishable_key'],
    ['{"publishable_key":""}', 'publishable_key'],
    ['{"publishable_key":"x","id_token":1}', 'id_token'],
    ['{"publishable_key":"x","id_token":""}', 'id_token'],
    ['{"publishable_key":"x","embedding_origin":{}}', 'embedding_origin'],
    ...[
      '',
      'shop.example.com',
      'https://shop.example.com/',
      'https://user@shop.example.com',
      'https://shop example',
    ].map((text): [string, string] => [`{"publishable_key":"x","embedding_origin":"${text}"}`, 'embedding_origin']),
    ['{"publishable_key":"x","organization_id":"y"}', 'organization_id'],
    ['{"publishable_key":"x","publishable_key":"y"}', ''],
  ])('%s is INVALID_BODY', async (body, field) => {
    expect((await exchange(body, { 'content-type': 'application/json' })).body).toEqual(
      refusal(400, 'INVALID_BODY', 'The request body is missing or malformed', { field, details: expect.any(String) }),
    )
  })
})

describe('the key', () => {
  test('gets the same response if it is malformed, mistyped, unknown or revoked', async () => {
    const { id, key } = await makeKey()
    await exchange({ publishable_key: key })
    await app.request('DELETE', `/publishable-keys/${id}`, { token: admin })
    const unknown = generateKey('pk', 'development')
    const mistyped = key.replace(/.$/, (last) => (last === 'a' ? 'b' : 'a'))
    const answers = await Promise.all(
      [key, unknown, mistyped, 'pk_test_', 'x', 'pk_live_'.padEnd(57, '0')].map((publishable_key) =>
        exchange({ publishable_key }),
      ),
    )
    expect(answers.map(({ body }) => body)).toEqual(answers.map(() => invalidKey))
    const headers = answers.map((answer) => [...answer.headers.keys()])
    expect(new Set(headers.map(String)).size).toBe(1)
  })

  test('is rejected within 30 seconds on a node that missed its revocation', async () => {
    const { id, key } = await makeKey()
    expect((await exchange({ publishable_key: key })).status).toBe(200)
    await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql`update publishable_keys set revoked_at = now() where id = ${id}`,
    )
    app.clock.now += 30_001
    expect((await exchange({ publishable_key: key })).body).toEqual(invalidKey)
  })
})

describe('the origin', () => {
  const own = 'http://localhost:8787'
  const restricted = { allowed_origins: [origin, 'https://*.preview.example.com', 'http://localhost:5173'] }

  test.each<[string, string | undefined, string | undefined, boolean]>([
    ['the page’s own request', origin, undefined, true],
    ['a preview', 'https://pr-1.preview.example.com', undefined, true],
    ['a local page', 'http://localhost:5173', undefined, true],
    ['our frame, for the page', own, origin, true],
    ['no browser, for the page', undefined, origin, true],
    ['neither', undefined, undefined, false],
    ['our frame, without a page', own, undefined, false],
    ['our frame, for another page', own, 'https://evil.example', false],
    ['a foreign page that names an allowed one', 'https://evil.example', origin, false],
    ['a sandboxed page that names an allowed one', 'null', origin, false],
    ['a suffix', 'https://shop.example.com.evil.example', undefined, false],
    ['a prefix', 'https://evilshop.example.com', undefined, false],
    ['another scheme', 'http://shop.example.com', undefined, false],
    ['another port', 'https://shop.example.com:8443', undefined, false],
    ['a trailing dot', 'https://shop.example.com.', undefined, false],
    ['a user name', 'https://shop.example.com@evil.example', undefined, false],
    ['a look-alike', 'https://xn--hop-h0a.example.com', undefined, false],
    ['the bare parent of a wildcard', 'https://preview.example.com', undefined, false],
    ['two labels for one wildcard', 'https://a.b.preview.example.com', undefined, false],
  ])('%s', async (_, header, embedding_origin, isAllowed) => {
    const { key } = await makeKey(restricted)
    const answer = await exchange(
      { publishable_key: key, ...(embedding_origin && { embedding_origin }) },
      header ? { origin: header } : {},
    )
    if (isAllowed) expect(answer.status).toBe(200)
    else expect(answer.body).toEqual(originNotAllowed)
    // A page can read the response only if its origin is allowed.
    expect(answer.headers.get('access-control-allow-origin')).toBe(isAllowed && header ? header : null)
  })

  test.each(['null', 'file://', 'http://intranet', 'https://Shop.example.com:443'])(
    'can be %s for a key without restrictions',
    async (embedding_origin) => {
      const { key } = await makeKey()
      expect((await exchange({ publishable_key: key, embedding_origin }, { origin: own })).status).toBe(200)
    },
  )

  test('must be one of the organization’s if the key has none', async () => {
    const app = await useTestService()
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { key } = await makeKey({}, app, token)
    const status = async (from: string) => (await exchange({ publishable_key: key }, { origin: from }, app)).status
    expect(await status('https://anywhere.example')).toBe(200)
    await app.request('PUT', '/organizations/current/allowed-domains', { token, body: { allowed_domains: [origin] } })
    expect(await status('https://anywhere.example'), 'at once, although the key is cached').toBe(403)
    expect(await status(origin)).toBe(200)
  })

  test('may send a preflight request', async () => {
    const response = await app.fetch('/api/auth/pk-ticket', { method: 'OPTIONS', headers: { origin } })
    expect(response.status).toBe(204)
    expect(response.headers.get('access-control-allow-origin')).toBe(origin)
    expect(response.headers.get('access-control-allow-credentials')).toBeNull()
  })
})

describe('an ID token', () => {
  let provider: TestProvider
  let app: TestService
  let key: string
  let token: string
  beforeAll(async () => {
    provider = await startTestProvider()
  })
  afterAll(() => provider.stop())
  beforeEach(async () => {
    app = await startTestService()
    token = await app.tokenFor('admin@demo.test', 'demo')
    key = (await makeKey({}, app, token)).key
    await trust({ idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] })
  })
  afterEach(() => app.close())

  const trust = (body: Record<string, unknown>) => app.request('PATCH', '/identity-providers/config', { token, body })
  const signIn = (id_token: string) => exchange({ publishable_key: key, id_token }, { origin }, app)
  const code = async (id_token: string) => (await signIn(id_token)).body.code
  const refusals = async () => (await app.request('GET', '/diagnostics/refusals', { token })).body.refusals

  test('from the provider creates an end user for its subject, once', async () => {
    const fetched = await provider.keyFetches()
    const idToken = await provider.idToken({
      sub: 'ann',
      email: 'Ann@Example.com',
      email_verified: true,
      name: 'Ann',
      plan: 'gold',
    })
    const { body } = await signIn(idToken)
    const { users, total } = (await app.request('GET', '/end-users', { token })).body
    expect(total).toBe(1)
    expect(users).toEqual([
      {
        id: body.userId,
        organization_id: body.orgId,
        external_id: 'ann',
        email: 'ann@example.com',
        metadata: '{"email_verified":true,"name":"Ann","plan":"gold"}',
        is_preview: false,
        last_activity_at: expect.any(String),
        created_at: expect.any(String),
        updated_at: expect.any(String),
      },
    ])
    expect((await signIn(idToken)).body.userId).toBe(body.userId)
    expect((await signIn(await provider.idToken({ sub: 'ann', email: 'new@example.com' }))).body.userId).toBe(
      body.userId,
    )
    expect((await app.request('GET', `/end-users/${body.userId}`, { token })).body.email).toBe('new@example.com')
    expect((await provider.keyFetches()) - fetched, 'the keys are fetched once').toBe(1)
  })

  test('is accepted until one minute after it expires, even if it is cached', async () => {
    const idToken = await provider.idToken()
    expect((await signIn(idToken)).status).toBe(200)
    // The provider uses its own clock.
    app.clock.now = (decodeJwt(idToken).exp as number) * 1000 + 59_000
    expect((await signIn(idToken)).status).toBe(200)
    app.clock.now += 2_000
    expect((await signIn(idToken)).body).toEqual(refusal(401, 'TOKEN_EXPIRED', 'The ID token has expired'))
  })

  test('is accepted if it is signed with a key that the provider just rotated to', async () => {
    expect((await signIn(await provider.idToken())).status).toBe(200)
    await provider.rotate()
    app.clock.now += 31_000
    expect((await signIn(await provider.idToken({ sub: 'bob' }))).status).toBe(200)
  })

  test('with an unknown key id causes at most one fetch in 30 seconds', async () => {
    const fetched = await provider.keyFetches()
    await signIn(await provider.idToken())
    const { privateKey } = await generateKeyPair('RS256')
    const forge = (kid: string) =>
      new SignJWT({ sub: 'x' })
        .setProtectedHeader({ alg: 'RS256', kid })
        .setIssuer(provider.issuer)
        .setAudience('shop')
        .setExpirationTime('1h')
        .sign(privateKey)
    const forged = await Promise.all(Array.from({ length: 20 }, (_, n) => forge(`made-up-${n}`)))
    app.clock.now += 31_000
    for (const idToken of forged) expect(await code(idToken)).toBe('INVALID_TOKEN')
    expect((await provider.keyFetches()) - fetched).toBe(2)
  })

  test('can be verified for an hour while the provider is down', async () => {
    const provider = await startTestProvider()
    await trust({ idp_issuer: provider.issuer })
    const [first, second] = [await provider.idToken({ sub: 'ann' }), await provider.idToken({ sub: 'bob' })]
    const third = await provider.idToken({ sub: 'cid', exp: Math.floor(app.clock.now / 1000) + 200_000 })
    expect((await signIn(first)).status).toBe(200)
    await provider.stop()
    app.clock.now += 30 * minute
    expect((await signIn(second)).status).toBe(200)
    app.clock.now += 31 * minute
    expect(await code(third)).toBe('INVALID_TOKEN')
    token = await app.tokenFor('admin@demo.test', 'demo')
    expect((await refusals())[0]).toMatchObject({ surface: 'id_token', step: 'provider_connection' })
  })

  test('is rejected if the organization has no provider', async () => {
    await trust({ idp_type: null })
    expect((await signIn(await provider.idToken())).body).toEqual(
      refusal(403, 'IDP_NOT_CONFIGURED', 'The organization has no identity provider yet'),
    )
  })

  test.each<[string, (sql: Sql) => Promise<unknown>, string]>([
    [
      'another provider',
      (sql) => sql`update identity_providers set idp_issuer = 'http://localhost:1'`,
      'INVALID_TOKEN',
    ],
    ['no provider', (sql) => sql`delete from identity_providers`, 'IDP_NOT_CONFIGURED'],
  ])('is rejected within 30 seconds on a node that missed the change to %s', async (_, change, code) => {
    const idToken = await provider.idToken()
    expect((await signIn(idToken)).status).toBe(200)
    // Changes the database directly, as if the message were lost.
    await app.service.database.asOrg(await app.organization('demo'), change)
    app.clock.now += 30_001
    expect((await signIn(idToken)).body.code).toBe(code)
  })

  describe('is rejected', () => {
    const unsigned = (header: object, claims: object) =>
      [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
    const claims = () => ({
      iss: provider.issuer,
      aud: 'shop',
      sub: 'ann',
      exp: Math.floor(app.clock.now / 1000) + 600,
    })
    const selfSigned = async (header: Record<string, unknown>) => {
      const { privateKey, publicKey } = await generateKeyPair('RS256')
      const jwk = await exportJWK(publicKey)
      return new SignJWT(claims())
        .setProtectedHeader({ alg: 'RS256', kid: 'k', ...header, ...('jwk' in header && { jwk }) })
        .sign(privateKey)
    }

    test.each<[string, () => Promise<string>, string]>([
      ['for another audience', () => provider.idToken({ client_id: 'elsewhere' }), 'audience'],
      ['with alg none', async () => `${unsigned({ alg: 'none' }, claims())}.`, 'algorithm'],
      [
        'signed symmetrically with the public key',
        async () => {
          const jwks = (await (await fetch(`${provider.issuer}/jwks`)).json()) as { keys: { kid: string; n: string }[] }
          const text = unsigned({ alg: 'HS256', kid: jwks.keys[0]?.kid }, claims())
          return `${text}.${createHmac('sha256', jwks.keys[0]?.n ?? '')
            .update(text)
            .digest('base64url')}`
        },
        'algorithm',
      ],
      ['with its own key in the header', () => selfSigned({ jwk: true }), 'key'],
      ['with critical extensions', () => selfSigned({ crit: ['b64'], b64: true }), 'format'],
      ['that is not a token', async () => 'hello', 'format'],
      ['that is huge', async () => 'x'.repeat(20_000), 'format'],
      ['with a changed payload', async () => (await provider.idToken()).replace(/\.(.{6})./, '.$1x'), 'signature'],
      ['from the future', () => provider.idToken({ nbf: Math.floor(app.clock.now / 1000) + 120 }), 'not_before'],
    ])('%s', async (_, make, step) => {
      const { body } = await signIn(await make())
      expect(body).toEqual(refusal(401, 'INVALID_TOKEN', 'The ID token could not be verified'))
      const [kept] = await refusals()
      expect(kept).toMatchObject({ surface: 'id_token', step, code: 'INVALID_TOKEN', origin, count: 1 })
      expect((await app.request('GET', '/end-users', { token })).body.total).toBe(0)
    })

    test('with the URL of keys in its header, which is never fetched', async () => {
      let fetches = 0
      const server = createServer((_, response) => {
        fetches += 1
        response.end('{"keys":[]}')
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => void server.close())
      const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      for (const header of [{ jku: address }, { x5u: address }])
        expect(await code(await selfSigned(header))).toBe('INVALID_TOKEN')
      expect(fetches).toBe(0)
    })

    test('from another organization’s provider', async () => {
      const foreign = await startTestProvider()
      onTestFinished(() => foreign.stop())
      const { body } = await signIn(await foreign.idToken())
      expect(body.code).toBe('INVALID_TOKEN')
    })

    test('and the administrator sees the expected and the actual value', async () => {
      await signIn(await provider.idToken({ client_id: 'elsewhere' }))
      await signIn(await provider.idToken({ client_id: 'elsewhere' }))
      expect(await refusals()).toEqual([
        {
          id: expect.any(String),
          surface: 'id_token',
          step: 'audience',
          code: 'INVALID_TOKEN',
          message: 'The token is for another application; add its client ID to the allowed audiences',
          expected: 'shop',
          seen: 'elsewhere',
          origin,
          publishable_key_id: expect.any(String),
          directory_id: null,
          directory_name: null,
          count: 2,
          first_at: expect.any(String),
          last_at: expect.any(String),
        },
      ])
      expect(await (await app.fetch('/metrics')).text()).toContain(
        'inlay_refusals_total{surface="id_token",code="INVALID_TOKEN"} 2',
      )
    })
  })

  test('of 50 new end users at once admits exactly as many as the plan allows, and later all who return', async () => {
    const other = await app.tokenFor('admin@other.test', 'other')
    const otherKey = (await makeKey({}, app, other)).key
    await app.request('PATCH', '/identity-providers/config', {
      token: other,
      body: { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] },
    })
    await app.service.database.asOrg(
      await app.organization('other'),
      (sql) => sql`
        insert into end_users (organization_id, id, issuer, external_id)
        select current_organization(), gen_random_uuid(), ${provider.issuer}, 'known-' || n from generate_series(1, 99) n`,
    )
    const tokens: string[] = []
    for (let n = 0; n < 50; n += 1) tokens.push(await provider.idToken({ sub: `new-${n}` }))
    const come = (id_token: string) => exchange({ publishable_key: otherKey, id_token }, {}, app)
    const answers = await Promise.all(tokens.map(come))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.find(({ status }) => status !== 200)?.body).toEqual(
      refusal(403, 'PAYMENT_REQUIRED', 'Your plan includes 100 end users, and all are in use'),
    )
    expect((await app.request('GET', '/end-users?limit=1', { token: other })).body.total).toBe(100)
    expect((await come(await provider.idToken({ sub: 'known-7' }))).status).toBe(200)
  })

  test('never appears in refusals or logs', async () => {
    const bad = await provider.idToken({ client_id: 'elsewhere' })
    await signIn(bad)
    const good = (await signIn(await provider.idToken())).body.ticket
    const written = JSON.stringify(await refusals()) + app.logged()
    for (const secret of [key, bad, bad.split('.')[2] as string, good]) expect(written).not.toContain(secret)
  })
})
