import { gzipSync } from 'node:zlib'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { defaultBodyLimit as bodyLimit } from '../foundation/operation.ts'
import { type ErrorCode, errorTable } from '../lib/errors.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const send = (body: string, headers: Record<string, string> = {}) =>
  app.request('POST', '/publishable-keys', { token, body, headers })

const validation = (details: unknown, field = '') => ({
  defined: true,
  code: 'BAD_REQUEST',
  status: 400,
  message: 'Invalid request data',
  data: { code: 'VALIDATION_ERROR', field, details },
})

type Provoke = () => Promise<{ body: unknown }>

/** A request that causes each error of the error table. */
const errors: Record<ErrorCode, [Provoke, Record<string, unknown>]> = {
  VALIDATION_ERROR: [() => send('{}'), { field: 'name', details: 'Required' }],
  AUTH_REQUIRED: [() => app.request('GET', '/users/me'), {}],
  ACCESS_DENIED: [
    async () => app.request('DELETE', '/publishable-keys/x', { token: await app.tokenFor('member@demo.test', 'demo') }),
    { reason: 'This needs the admin role' },
  ],
  ORG_CONTEXT_REQUIRED: [
    async () => app.request('GET', '/publishable-keys', { token: await app.tokenFor('admin@demo.test') }),
    {},
  ],
  PAYMENT_REQUIRED: [() => inviteToOther('one@example.com', 'two@example.com'), {}],
  RESOURCE_NOT_FOUND: [
    () => app.request('DELETE', '/publishable-keys/x', { token }),
    { resource: 'publishable_key', resourceId: 'x' },
  ],
  DUPLICATE_RESOURCE: [
    () =>
      app.request('POST', '/organizations/current/invitations', {
        token,
        body: { email: 'member@demo.test', role: 'member' },
      }),
    { resource: 'member' },
  ],
  INTERNAL_ERROR: [() => withBrokenDatabase(() => app.request('GET', '/publishable-keys', { token })), {}],
}

test.each(Object.keys(errors) as ErrorCode[])('%s has exactly its envelope', async (code) => {
  const [provoke, data] = errors[code]
  const { status, code: outer, message } = errorTable[code]
  const said = code === 'PAYMENT_REQUIRED' ? 'Your plan includes 3 seats, and all are in use' : message
  expect((await provoke()).body).toEqual({ defined: true, code: outer, status, message: said, data: { code, ...data } })
})

/** Exceeds the free plan's three seats, two of which are in use. Returns the response to the last invitation. */
async function inviteToOther(...emails: string[]): Promise<{ body: unknown }> {
  const other = await app.tokenFor('admin@other.test', 'other')
  let answer: { body: unknown } = { body: undefined }
  for (const email of emails) {
    answer = await app.request('POST', '/organizations/current/invitations', {
      token: other,
      body: { email, role: 'member' },
    })
  }
  return answer
}

/** Runs the work while a table is missing. */
async function withBrokenDatabase<T>(work: () => Promise<T>): Promise<T> {
  const owner = new pg.Client(app.stores.owner)
  await owner.connect()
  await owner.query('alter table publishable_keys rename to keys_elsewhere')
  try {
    return await work()
  } finally {
    await owner.query('alter table keys_elsewhere rename to publishable_keys')
    await owner.end()
  }
}

test('the log contains the details that callers do not see', async () => {
  await withBrokenDatabase(() => app.request('GET', '/publishable-keys', { token }))
  expect(app.logged()).toMatch(/relation .{0,2}publishable_keys.{0,2} does not exist/)
})

describe('a body is rejected', () => {
  test.each([
    ['that is malformed', '{"name":', 'Malformed JSON at position 8'],
    ['that is empty', '', 'A JSON body is required'],
    ['with trailing text', '{"name":"x"} {}', expect.stringContaining('Malformed JSON')],
    ['with a duplicate key', '{"name":"x","name":"y"}', 'Duplicate key "name"'],
    ['with __proto__', '{"name":"x","__proto__":{"admin":true}}', 'Forbidden key "__proto__"'],
    ['with constructor', '{"name":"x","constructor":{"prototype":{}}}', 'Forbidden key "constructor"'],
    ['nested 10 000 levels deep', `${'['.repeat(10_000)}${']'.repeat(10_000)}`, 'Nested deeper than 64 levels'],
  ])('%s', async (_, body, details) => {
    expect((await send(body)).body).toEqual(validation(details))
    expect(({} as { admin?: boolean }).admin, 'prototypes are intact').toBeUndefined()
  })

  test.each([['text/plain'], ['application/x-www-form-urlencoded'], ['application/json5'], ['']])(
    'of the type "%s"',
    async (type) => {
      expect((await send('{"name":"x"}', { 'content-type': type })).body.data.code).toBe('VALIDATION_ERROR')
    },
  )

  test.each([
    ['/publishable-keys', 'VALIDATION_ERROR'],
    ['/auth/pk-ticket', 'INVALID_BODY'],
  ])('that is compressed, to %s', async (path, code) => {
    const response = await app.fetch(`/api${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'content-encoding': 'gzip',
      },
      body: gzipSync('{"name":"x"}'),
    })
    const data = { code, field: '', details: 'Compressed request bodies are not accepted' }
    expect(await response.json()).toMatchObject({ status: 400, data })
  })

  test('that is not UTF-8', async () => {
    const response = await app.fetch('/api/publishable-keys', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: Buffer.from('7b226e616d65223a22ff227d', 'hex'),
    })
    expect(await response.json()).toEqual(validation('The body is not valid UTF-8'))
  })

  test.each([
    ['declares', { 'content-length': String(bodyLimit + 1) }],
    ['does not declare', {}],
  ])('of one byte too many that %s its length', async (_, headers) => {
    const body = JSON.stringify({ name: 'x'.repeat(bodyLimit - 10) })
    expect(Buffer.byteLength(body)).toBe(bodyLimit + 1)
    expect((await send(body, headers)).body).toEqual({
      defined: false,
      code: 'PAYLOAD_TOO_LARGE',
      status: 413,
      message: 'The request body is larger than 65536 bytes',
    })
  })

  test('but accepted at exactly the limit', async () => {
    const body = JSON.stringify({ name: 'x'.repeat(bodyLimit - 11) })
    expect((await send(body)).body.data.field).toBe('name')
  })

  test.each([
    ['/auth/pk-ticket', 20 * 1024, 'INVALID_BODY'],
    ['/organization-skills', 1024 * 1024, 'VALIDATION_ERROR'],
  ])('to %s by its own limit of %i bytes', async (path, limit, code) => {
    const sendTo = (size: number) => app.request('POST', path, { token, body: ' '.repeat(size) })
    expect((await sendTo(limit + 1)).body).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' })
    expect((await sendTo(limit)).body.data.code).toBe(code)
  })

  test.each([
    ['/publishable-keys', 'VALIDATION_ERROR'],
    ['/auth/pk-ticket', 'INVALID_BODY'],
  ])('with too many keys, to %s', async (path, code) => {
    const body = JSON.stringify(Object.fromEntries(Array.from({ length: 1_001 }, (_, index) => [index, 1])))
    const answer = await app.request('POST', path, { token, body })
    expect(answer.body).toMatchObject({ status: 400, data: { code, details: 'An object has more than 1000 keys' } })
  })

  test('with a long unknown key, which is not returned in full', async () => {
    const { body } = await send(JSON.stringify({ name: 'x', ['k'.repeat(10_000)]: 1 }))
    expect(body.data).toMatchObject({ field: `${'k'.repeat(63)}…`, details: `Unknown field "${'k'.repeat(63)}…"` })
  })

  test('but accepted with an uppercase content type and a charset', async () => {
    expect((await send('{"name":"x"}', { 'content-type': 'Application/JSON; charset=UTF-8' })).status).toBe(200)
  })
})

test('authentication is checked before input', async () => {
  const { body } = await app.request('POST', '/publishable-keys', { body: 'not json' })
  expect(body.data.code).toBe('AUTH_REQUIRED')
})

test('input is checked before existence', async () => {
  const { body } = await app.request('PATCH', '/publishable-keys/unknown', { token, body: { name: '' } })
  expect(body.data.code).toBe('VALIDATION_ERROR')
})

test.each([
  ['GET', '/unknown'],
  ['POST', '/users/me'],
  ['GET', '/publishable-keys/'],
  ['GET', '/organizations/current/members/a/b'],
])('%s %s is an unknown route', async (method, path) => {
  const { body } = await app.request(method, path, { token })
  const { pathname } = new URL(`http://localhost/api${path}`)
  expect(body).toEqual({
    defined: true,
    code: 'NOT_FOUND',
    status: 404,
    message: 'Resource not found',
    data: { code: 'RESOURCE_NOT_FOUND', resource: 'route', resourceId: `${method} ${pathname}` },
  })
})

test('forged host headers do not change any URL', async () => {
  const forged = { host: 'evil.example', 'x-forwarded-host': 'evil.example', forwarded: 'host=evil.example' }
  for (const path of ['/', '/api/spec.json', '/api/docs', '/oauth/jwks', '/api/users/me']) {
    const response = await app.fetch(path, { headers: forged })
    expect((await response.text()) + JSON.stringify([...response.headers])).not.toContain('evil.example')
  }
})

test('every response has a request id and security headers', async () => {
  for (const path of ['/', '/api/users/me', '/api/unknown', '/healthz', '/nowhere']) {
    const { headers } = await app.fetch(path)
    expect(headers.get('x-request-id'), path).toMatch(/^[\w-]{22}$/)
    expect(headers.get('x-content-type-options'), path).toBe('nosniff')
    expect(headers.get('content-security-policy'), path).toContain("frame-ancestors 'none'")
  }
})

test('the server reports its health, the health of its stores, and its metrics', async () => {
  expect(await (await app.fetch('/healthz')).json()).toEqual({ status: 'ok' })
  expect(await (await app.fetch('/readyz')).json()).toEqual({ status: 'ok', stores: { database: 'ok', kv: 'ok' } })
  await app.request('GET', '/users/me', { token })
  expect(await (await app.fetch('/metrics')).text()).toMatch(
    /inlay_http_requests_total\{operation="getCurrentUser",status="200"\} \d/,
  )
})

test('the readiness probe has a connection of its own, so that slow queries don’t take the node out', async () => {
  const owner = new pg.Client(app.stores.owner)
  await owner.connect()
  await owner.query('select pg_advisory_lock(1)')
  const stuck = Array.from({ length: 50 }, () =>
    app.service.database.asService((sql) => sql`select pg_advisory_xact_lock(1)`).catch(() => undefined),
  )
  try {
    const response = (await Promise.race([app.fetch('/readyz'), ...stuck])) as Response
    expect(response).toBeInstanceOf(Response)
    expect([response.status, await response.json()]).toEqual([
      200,
      { status: 'ok', stores: { database: 'ok', kv: 'ok' } },
    ])
  } finally {
    await owner.end()
    await Promise.all(stuck)
  }
})

test('the log contains no secrets from requests or responses', async () => {
  const { body } = await app.request('POST', '/publishable-keys', { token, body: { name: 'canary' } })
  await app.request('POST', `/publishable-keys/${body.id}/reveal`, { token })
  await app.request('GET', `/publishable-keys?key=${body.key}`, { token: `${token}x` })
  await app.request('GET', `/unknown/${body.key}?token=${token}`, { token })
  await send(`{"name":"${body.key}"`)
  const log = app.logged()
  expect(log).toContain('createPublishableKey')
  for (const secret of [body.key, token, token.split('.')[2] as string, app.config.secrets[0] as string]) {
    expect(log).not.toContain(secret)
  }
})

test('a stopping server still responds, closes each connection with its response, and fails its readiness probe', async () => {
  const stopping = await startTestService()
  const admin = await stopping.tokenFor('admin@demo.test', 'demo')
  stopping.drain()
  const { status, headers } = await stopping.request('GET', '/users/me', { token: admin })
  expect([status, headers.get('connection')]).toEqual([200, 'close'])
  const ready = await stopping.fetch('/readyz')
  expect([ready.status, await ready.json()]).toEqual([503, { status: 'stopping' }])
  expect((await stopping.fetch('/healthz')).status).toBe(200)
  await stopping.close()
})
