import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { useTestService } from './harness.ts'
import { startRedisProxy } from './redis-proxy.ts'

const { redisUrl } = inject('engines')

test.runIf(redisUrl)(
  'without Redis every surface is 503 with Retry-After, and serves again once Redis is back',
  async () => {
    const redis = await startRedisProxy(redisUrl as string)
    const app = await useTestService({ REDIS_URL: redis.url })
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { key } = (await app.request('POST', '/publishable-keys', { token, body: { name: 'Shop' } })).body
    const fresh = await app.tokenFor('member@demo.test', 'demo')
    const post = (path: string, type: string, body: string) =>
      app.fetch(path, { method: 'POST', headers: { 'content-type': type }, body })
    const register = () =>
      post('/oauth/register', 'application/json', JSON.stringify({ redirect_uris: ['https://app.example/done'] }))
    const surfaces = {
      ticket: () => post('/api/auth/pk-ticket', 'application/json', JSON.stringify({ publishable_key: key })),
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
    expect((await app.fetch('/readyz')).status).toBe(503)
    expect((await app.request('GET', '/publishable-keys', { token })).status, 'who is known is served').toBe(200)

    redis.restore()
    await vi.waitFor(async () => expect((await app.fetch('/readyz')).status).toBe(200), { timeout: 10_000 })
    expect(await ask()).toMatchObject({
      ticket: { status: 200 },
      'a token that this node has not seen': { status: 200 },
      registration: { status: 201 },
      'token endpoint': { status: 401 },
    })
  },
)
