import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../test/harness.ts'
import { createKvAdapter } from './kv-adapter.ts'
import { isGrantLive, keepClient } from './records.ts'

let app: TestService
beforeAll(async () => {
  app = await startTestService()
})
afterAll(() => app.close())

const day = 24 * 60 * 60
const soon = () => Math.floor(Date.now() / 1000) + 60

test('a record is found until it is destroyed', async () => {
  const adapter = createKvAdapter(app.service.kv)('AuthorizationCode')
  await adapter.upsert('one', { clientId: 'c', exp: soon() }, 60)
  expect(await adapter.find('one')).toEqual({ clientId: 'c', exp: expect.any(Number) })
  expect(await createKvAdapter(app.service.kv)('RefreshToken').find('one')).toBeUndefined()
  await adapter.destroy('one')
  expect(await adapter.find('one')).toBeUndefined()
})

test('a session is found by its uid, also after it changed its id', async () => {
  const adapter = createKvAdapter(app.service.kv)('Session')
  await adapter.upsert('first', { uid: 'u', accountId: 'a' }, 60)
  await adapter.destroy('first')
  await adapter.upsert('second', { uid: 'u', accountId: 'b' }, 60)
  expect(await adapter.findByUid('u')).toEqual({ uid: 'u', accountId: 'b' })
  expect(await adapter.findByUid('unknown')).toBeUndefined()
})

test('of fifty uses at once one succeeds, and the replay ends the grant', async () => {
  const { kv } = app.service
  const adapter = createKvAdapter(kv)('AuthorizationCode')
  await createKvAdapter(kv)('Grant').upsert('grant', { accountId: 'a' }, 60)
  await adapter.upsert('code', { grantId: 'grant', exp: soon() }, 60)
  const uses = await Promise.allSettled(Array.from({ length: 50 }, () => adapter.consume('code')))
  expect(uses.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(uses.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { error: 'invalid_grant' } })
  expect(await adapter.find('code')).toMatchObject({ consumed: expect.any(Number) })
  expect(await isGrantLive(kv, 'grant')).toBe(false)
})

test('what is unknown cannot be used', async () => {
  const adapter = createKvAdapter(app.service.kv)('RefreshToken')
  await expect(adapter.consume('unknown')).rejects.toMatchObject({ error: 'invalid_grant' })
})

test('revoking by grant ends the grant', async () => {
  const { kv } = app.service
  await createKvAdapter(kv)('Grant').upsert('other', { accountId: 'a' }, 60)
  expect(await isGrantLive(kv, 'other')).toBe(true)
  await createKvAdapter(kv)('RefreshToken').revokeByGrantId('other')
  expect(await isGrantLive(kv, 'other')).toBe(false)
})

test('names in the store do not show what they stand for', async () => {
  const names: string[] = []
  const kv = { ...app.service.kv, set: async (name: string) => void names.push(name) }
  await createKvAdapter(kv)('Session').upsert('secret-id', { uid: 'secret-uid' }, 60)
  expect(names).toHaveLength(2)
  for (const name of names) expect(name).toMatch(/^oauth:[\w-]+:[\w-]{43}$/)
})

test('a client that nobody allowed anything is forgotten after a month, one that was used is kept', async () => {
  const lifetimes: (number | undefined)[] = []
  const kv = {
    ...app.service.kv,
    set: async (...[name, value, seconds]: Parameters<typeof app.service.kv.set>) => {
      lifetimes.push(seconds)
      await app.service.kv.set(name, value, seconds)
    },
  }
  await createKvAdapter(kv)('Client').upsert('client', { client_id: 'client' } as never, undefined as never)
  await keepClient(kv, 'client')
  await keepClient(kv, 'https://unknown.example.com')
  expect(lifetimes).toEqual([30 * day, 400 * day])
})
