import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { connectRedis } from '../../kernel/stores/redis.ts'
import { findRecord, keepClient } from '../access/records.ts'
import { createKvAdapter } from './kv-adapter.ts'

let app: TestService
beforeAll(async () => {
  app = await startTestService()
})
afterAll(() => app.close())

const day = 24 * 60 * 60
const soon = () => Math.floor(Date.now() / 1000) + 60

test('a record is found until it is destroyed', async () => {
  const adapter = createKvAdapter(app.service)('AuthorizationCode')
  await adapter.upsert('one', { clientId: 'c', exp: soon() }, 60)
  expect(await adapter.find('one')).toEqual({ clientId: 'c', exp: expect.any(Number) })
  expect(await createKvAdapter(app.service)('RefreshToken').find('one')).toBeUndefined()
  await adapter.destroy('one')
  expect(await adapter.find('one')).toBeUndefined()
})

test('a session is found by its uid, even after its id changes', async () => {
  const adapter = createKvAdapter(app.service)('Session')
  await adapter.upsert('first', { uid: 'u', accountId: 'a' }, 60)
  await adapter.destroy('first')
  await adapter.upsert('second', { uid: 'u', accountId: 'b' }, 60)
  expect(await adapter.findByUid('u')).toEqual({ uid: 'u', accountId: 'b' })
  expect(await adapter.findByUid('unknown')).toBeUndefined()
})

test('of fifty concurrent uses one succeeds, and the replay revokes the grant', async () => {
  const { kv } = app.service
  const adapter = createKvAdapter(app.service)('AuthorizationCode')
  await createKvAdapter(app.service)('Grant').upsert('grant', { accountId: 'a' }, 60)
  await adapter.upsert('code', { grantId: 'grant', exp: soon() }, 60)
  const uses = await Promise.allSettled(Array.from({ length: 50 }, () => adapter.consume('code')))
  expect(uses.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(uses.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { error: 'invalid_grant' } })
  expect(await adapter.find('code')).toMatchObject({ consumed: expect.any(Number) })
  expect(await findRecord(kv, 'Grant', 'grant')).toBeUndefined()
})

test('an unknown record cannot be used', async () => {
  const adapter = createKvAdapter(app.service)('RefreshToken')
  await expect(adapter.consume('unknown')).rejects.toMatchObject({ error: 'invalid_grant' })
})

test('revoking by grant deletes the grant', async () => {
  const { kv } = app.service
  await createKvAdapter(app.service)('Grant').upsert('other', { accountId: 'a' }, 60)
  expect(await findRecord(kv, 'Grant', 'other')).toBeDefined()
  await createKvAdapter(app.service)('RefreshToken').revokeByGrantId('other')
  expect(await findRecord(kv, 'Grant', 'other')).toBeUndefined()
})

interface EntryRow {
  key: string
  expires_at: number | null
}

/** Keys in the store and their expiry, read directly. */
async function readStore(): Promise<Map<string, number | null>> {
  const { redisUrl, redisPrefix, dataDir } = app.config
  if (!redisUrl) {
    const file = new DatabaseSync(join(dataDir, 'kv.db'), { readOnly: true })
    const entries = file.prepare('select key, expires_at from entries').all() as unknown as EntryRow[]
    file.close()
    return new Map(entries.map(({ key, expires_at }) => [key, expires_at]))
  }
  const redis = connectRedis(redisUrl)
  const names = await redis.keys(`${redisPrefix}:*`)
  const times = await Promise.all(names.map((name) => redis.pexpiretime(name)))
  await redis.quit()
  return new Map(names.map((name, index) => [name.slice(redisPrefix.length + 1), times[index] ?? null]))
}

async function storeAnew(work: () => Promise<void>): Promise<[name: string, secondsLeft: number][]> {
  const before = await readStore()
  await work()
  const now = app.config.redisUrl ? Date.now() : app.clock.now
  return [...(await readStore())]
    .filter(([name, expiresAt]) => before.get(name) !== expiresAt)
    .map(([name, expiresAt]) => [name, ((expiresAt ?? Number.NaN) - now) / 1000])
}

test('keys in the store do not reveal ids', async () => {
  const adapter = createKvAdapter(app.service)('Session')
  const stored = await storeAnew(
    () => adapter.upsert('secret-id', { uid: 'secret-uid', accountId: 'a' }, 60) as Promise<void>,
  )
  expect(stored).toHaveLength(2)
  for (const [name] of stored) expect(name).toMatch(/^oauth:[\w-]+:[\w-]{43}$/)
})

test('deletes a client that no user has allowed after a day, and keeps one that was used', async () => {
  const { kv } = app.service
  const lifetimes = async (work: () => Promise<void>) =>
    (await storeAnew(work))
      .filter(([name]) => /^oauth:\w*Client:/.test(name))
      .map(([, secondsLeft]) => Math.round(secondsLeft / day))
  expect(await lifetimes(() => registerClient('client'))).toEqual([1])
  expect(await lifetimes(() => keepClient(kv, 'client'))).toEqual([400])
  expect(await lifetimes(() => keepClient(kv, 'https://unknown.example.com'))).toEqual([])
})

const registerClient = (id: string) =>
  createKvAdapter(app.service)('Client').upsert(id, { client_id: id } as never, undefined as never) as Promise<void>

/** As if that many other records had been stored since. */
const storeOthers = (kind: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => app.service.kv.count(`newest:${kind}`)))

test('evicts the oldest beyond 2 500 unused clients, and keeps a used one', async () => {
  const { kv } = app.service
  const adapter = createKvAdapter(app.service)('Client')
  for (const id of ['used', 'oldest', 'older']) await registerClient(id)
  await keepClient(kv, 'used')
  await storeOthers('oauth:clients', 2_500 - 3)
  expect(await adapter.find('oldest')).toBeDefined()
  for (const id of ['new', 'newer']) await registerClient(id)
  const found = await Promise.all(['used', 'oldest', 'older', 'new', 'newer'].map((id) => adapter.find(id)))
  expect(found.map(Boolean)).toEqual([true, false, true, true, true])
})

test.each([
  ['Interaction', 10_000],
  ['Session', 5_000],
  ['ReplayDetection', 20_000],
])('keeps only the newest records of unauthenticated visitors: %s, %i', async (model, limit) => {
  const adapter = createKvAdapter(app.service)(model)
  await adapter.upsert('oldest', { uid: 'oldest' }, 600)
  await adapter.upsert('older', { uid: 'older' }, 600)
  await storeOthers(`oauth:${model}`, limit - 2)
  await adapter.upsert('older', { uid: 'older', scope: 'changed' }, 600)
  expect(await adapter.find('oldest'), 'an update does not count as a new record').toBeDefined()
  await adapter.upsert('new', { uid: 'new' }, 600)
  const found = await Promise.all(['oldest', 'older', 'new'].map((id) => adapter.find(id)))
  expect(found.map(Boolean)).toEqual([false, true, true])
})

test.each(['Interaction', 'Session'])('rejects large records of unauthenticated visitors: %s', async (model) => {
  const adapter = createKvAdapter(app.service)(model)
  const large = { uid: 'large', params: { state: 'x'.repeat(7 * 1024) } }
  await expect(adapter.upsert('large', large, 60)).rejects.toMatchObject({ error: 'invalid_request' })
  expect(await adapter.find('large')).toBeUndefined()
})
