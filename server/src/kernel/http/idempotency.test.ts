import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { samples } from '../../../test/samples.ts'
import { api } from '../../api.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const operations = api.map(({ operation }) => operation)
const creating = operations.filter(({ creates }) => creates)

const create = (body: unknown, key: string, bearer = token) =>
  app.request('POST', '/publishable-keys', { token: bearer, body, headers: { 'idempotency-key': key } })

const keysNamed = async (name: string, bearer = token) => {
  const { body } = await app.request('GET', '/publishable-keys', { token: bearer })
  return body.keys.filter((key: { name: string }) => key.name === name)
}

test('every POST that creates something supports the header', () => {
  const named = operations.filter(({ id, method }) => method === 'post' && id.startsWith('create'))
  expect(creating).toEqual(expect.arrayContaining(named))
})

test.each(creating.map(({ id }) => [id]))(
  '%s runs once for the same key and input, and returns the same response',
  async (id) => {
    const operation = creating.find((each) => each.id === id)
    const sample = samples[id]
    const path = Object.entries((await sample?.prepare?.(app, 'demo')) ?? {}).reduce(
      (text, [name, value]) => text.replace(`{${name}}`, value),
      operation?.path ?? '',
    )
    const options = { token, body: sample?.body?.(), headers: { 'idempotency-key': randomUUID() } }
    const first = await app.request('POST', path, options)
    const second = await app.request('POST', path, options)
    expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([200, null])
    expect([second.status, second.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
    expect(second.body).toEqual(first.body)
  },
)

describe('a key', () => {
  test('creates one resource, and returns its secret again', async () => {
    const [name, key] = [randomUUID(), randomUUID()]
    const first = await create({ name }, key)
    const second = await create({ allowed_origins: [], name }, key)
    expect(second.body.key).toBe(first.body.key)
    expect(await keysNamed(name)).toHaveLength(1)
  })

  test('creates one resource for any number of concurrent requests', async () => {
    const [name, key] = [randomUUID(), randomUUID()]
    const answers = await Promise.all(Array.from({ length: 20 }, () => create({ name }, key)))
    expect(await keysNamed(name)).toHaveLength(1)
    for (const { status, body } of answers) {
      if (status === 409) expect(body).toMatchObject({ defined: false, code: 'IDEMPOTENCY_KEY_IN_USE' })
      else expect(body.name).toBe(name)
    }
    expect((await create({ name }, key)).status).toBe(200)
  })

  test('is rejected with a different input', async () => {
    const key = randomUUID()
    await create({ name: 'one' }, key)
    expect((await create({ name: 'two' }, key)).body).toMatchObject({
      defined: false,
      status: 422,
      code: 'IDEMPOTENCY_KEY_REUSED',
    })
  })

  test('belongs to its caller, organization and operation', async () => {
    const key = randomUUID()
    const name = `mine ${key}`
    await create({ name }, key)
    const other = await app.tokenFor('admin@other.test', 'other')
    expect((await create({ name }, key, other)).headers.get('idempotent-replayed')).toBeNull()
    expect(await keysNamed(name, other)).toHaveLength(1)
    const organization = await app.request('POST', '/organizations', {
      token,
      body: { name },
      headers: { 'idempotency-key': key },
    })
    expect(organization.body.slug).toBeDefined()
  })

  test('can be used again after its request was rejected', async () => {
    const key = randomUUID()
    expect((await create({ name: '' }, key)).status).toBe(400)
    const invite = (email: string) =>
      app.request('POST', '/organizations/current/invitations', {
        token,
        body: { email, role: 'member' },
        headers: { 'idempotency-key': key },
      })
    expect((await invite('member@demo.test')).status).toBe(409)
    expect((await invite(`${key}@example.com`)).status).toBe(200)
    expect((await create({ name: 'now' }, key)).status).toBe(200)
  })

  test('requires permission to create, even for a replay', async () => {
    const key = randomUUID()
    const name = randomUUID()
    await create({ name }, key)
    expect((await create({ name }, key, await app.tokenFor('member@demo.test', 'demo'))).status).toBe(403)
  })

  // Redis uses its own clock.
  test.skipIf(inject('engines').redisUrl)('expires after a day', async () => {
    const own = await useTestService()
    const options = { body: { name: 'daily' }, headers: { 'idempotency-key': 'daily' } }
    const send = async () =>
      own.request('POST', '/publishable-keys', { token: await own.tokenFor('admin@demo.test', 'demo'), ...options })
    const first = await send()
    own.clock.now += 24 * 60 * 60 * 1000 + 1
    expect((await send()).body.id).not.toBe(first.body.id)
  })

  test.each([[''], ['with space'], ['ü'], ['x'.repeat(256)]])('"%s" is rejected', async (key) => {
    const { status, body } = await create({ name: 'x' }, key)
    expect([status, body.data]).toEqual([
      400,
      {
        code: 'VALIDATION_ERROR',
        field: 'Idempotency-Key',
        details: 'Must be 1 to 255 visible ASCII characters',
      },
    ])
  })
})
