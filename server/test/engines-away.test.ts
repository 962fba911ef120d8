import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { startEngineProxy } from './engine-proxy.ts'
import { makeConfig, useTestService } from './harness.ts'

const { redisUrl } = inject('engines')

test.runIf(redisUrl)(
  'while Redis is unavailable, every surface returns a 503 with Retry-After, and recovers when Redis returns',
  async () => {
    const redis = await startEngineProxy(redisUrl as string)
    const app = await useTestService({ REDIS_URL: redis.url })
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { key } = (await app.request('POST', '/publishable-keys', { token, body: { name: 'Shop' } })).body
    const fresh = await app.tokenFor('member@demo.test', 'demo')
    const post = (path: string, type: string, body: string) =>
      app.fetch(path, { method: 'POST', headers: { 'content-type': type }, body })
    const register = () =>
      post('/oauth/register', 'application/json', JSON.stringify({ redirect_uris: ['https://app.example/done'] }))
    const surfaces = {
      'a token that this node has not seen': () =>
        app.fetch('/api/users/me', { headers: { authorization: `Bearer ${fresh}` } }),
      registration: register,
      'token endpoint': () =>
        post(
          '/oauth/token',
          'application/x-www-form-urlencoded',
          'grant_type=refresh_token&refresh_token=x&client_id=x',
        ),
    }
    const exchange = () => post('/api/auth/pk-ticket', 'application/json', JSON.stringify({ publishable_key: key }))
    const ask = async () => {
      const answers: Record<string, { status: number; retryAfter: string | null }> = {}
      for (const [name, request] of Object.entries(surfaces)) {
        const { status, headers } = await request()
        answers[name] = { status, retryAfter: headers.get('retry-after') }
      }
      return answers
    }
    redis.cut()
    onTestFinished(() => redis.restore())
    const away = { status: 503, retryAfter: '5' }
    expect(await ask()).toEqual(Object.fromEntries(Object.keys(surfaces).map((name) => [name, away])))
    const { ticket } = (await (await exchange()).json()) as { ticket: string }
    await expect(app.service.tickets.redeem(ticket), 'its use can’t be recorded').rejects.toMatchObject({
      envelope: { status: 503 },
    })
    expect((await app.fetch('/readyz')).status).toBe(503)
    expect((await app.request('GET', '/publishable-keys', { token })).status, 'cached tokens still work').toBe(200)

    redis.restore()
    await vi.waitFor(async () => expect((await app.fetch('/readyz')).status).toBe(200))
    expect(await ask()).toMatchObject({
      'a token that this node has not seen': { status: 200 },
      registration: { status: 201 },
      'token endpoint': { status: 401 },
    })
    expect(await app.service.tickets.redeem(ticket)).toMatchObject({ organization_id: await app.organization('demo') })
  },
)

test('while PostgreSQL is unavailable, every surface that needs it returns a 503 with Retry-After, and recovers', async () => {
  const { config, remove } = await makeConfig({}, 'demo')
  onTestFinished(remove)
  const direct = new URL(config.databaseUrl ?? '')
  const proxy = await startEngineProxy(`unix:${direct.searchParams.get('host')}/.s.PGSQL.${direct.port || 5432}`)
  const app = await useTestService({
    DATABASE_URL: `postgres://${direct.username}@${proxy.host}${direct.pathname}`,
  })
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { key } = (await app.request('POST', '/publishable-keys', { token, body: { name: 'Shop' } })).body
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const post = (path: string, body: object) => app.fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
  const surfaces = {
    'a read': () => app.fetch('/api/publishable-keys', { headers }),
    'a write': () => post('/api/publishable-keys', { name: 'Another' }),
    'a ticket': () => post('/api/auth/pk-ticket', { publishable_key: key }),
  }
  const ask = async () => {
    const answers: Record<string, unknown> = {}
    for (const [name, request] of Object.entries(surfaces)) {
      const response = await request()
      answers[name] = { status: response.status, retryAfter: response.headers.get('retry-after') }
    }
    return answers
  }
  proxy.cut()
  onTestFinished(() => proxy.restore())
  const away = { status: 503, retryAfter: '5' }
  expect(await ask()).toEqual({ 'a read': away, 'a write': away, 'a ticket': away })
  expect((await app.fetch('/readyz')).status).toBe(503)
  expect((await app.fetch('/healthz')).status, 'the process itself is healthy').toBe(200)

  proxy.restore()
  await vi.waitFor(async () => expect((await app.fetch('/readyz')).status).toBe(200))
  const fine = { status: 200, retryAfter: null }
  expect(await ask()).toEqual({ 'a read': fine, 'a write': fine, 'a ticket': fine })
  const { body } = await app.request('GET', '/publishable-keys', { token })
  expect(body.keys, 'the failed write left nothing behind').toHaveLength(2)
})
