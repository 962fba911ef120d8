import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, inject, test, vi } from 'vitest'
import { startEngineProxy } from '../../../test/engine-proxy.ts'
import { type TestService, useTestService } from '../../../test/harness.ts'
import { holdIdentity } from '../../visitors/end-users/held-identities.ts'
import { accessCleanup, selectAccessCleanups } from './access-cleanup.ts'

/** A service whose key-value store can be made unavailable, and an end user with a held ID token. */
async function useBreakableKv() {
  const { redisUrl } = inject('engines')
  const redis = redisUrl ? await startEngineProxy(redisUrl) : undefined
  const app = await useTestService(redis && { REDIS_URL: redis.url })
  const { database, kv } = app.service
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const organizationId = await app.organization('demo')
  const id = randomUUID()
  await database.asOrg(
    organizationId,
    (sql) => sql`insert into end_users (organization_id, id, external_id) values (${organizationId}, ${id}, 'ann')`,
  )
  const held = { end_user_id: id, id_token: 'x', verified_email: 'ann@example.com', provider: 'x' }
  await holdIdentity(app.service, organizationId, held, app.clock.now + 60_000)
  // A node keeps serving callers it has cached while the store is unavailable.
  await app.request('GET', `/end-users/${id}`, { token })
  /** An open write transaction on another connection blocks every write to the file. */
  const lockFile = () => {
    const file = new DatabaseSync(join(app.config.dataDir, 'kv.db'))
    file.exec('begin immediate')
    return () => file.close()
  }
  const cut = () => {
    redis?.cut()
    return () => redis?.restore()
  }
  return {
    app,
    admin: token,
    erase: () => app.request('DELETE', `/end-users/${id}`, { token }),
    breakKv: redis ? cut : lockFile,
    isHeld: async () => (await kv.get(`identity:${organizationId}:${id}`)) !== undefined,
    organizationId,
    unfinished: () => database.asOrg(organizationId, selectAccessCleanups),
  }
}

/** Doesn't wait for the pause after a failure. */
const retryNow = (app: TestService) =>
  app.service.database.asWorker(
    (sql) => sql`update jobs set due_at = now() where kind = ${accessCleanup} and lease is null`,
  )

test('an erasure succeeds while the key-value store is unavailable, and any node finishes it later', async () => {
  const { app, erase, breakKv, isHeld, unfinished } = await useBreakableKv()
  const repair = breakKv()
  expect((await erase()).body).toEqual({ success: true })
  expect((await erase()).body, 'repeated').toEqual({ success: true })
  expect(await unfinished()).toHaveLength(1)
  repair()
  await vi.waitFor(async () => expect(await isHeld()).toBe(true))

  await retryNow(app)
  await vi.waitFor(async () => expect(await unfinished()).toHaveLength(0))
  expect(await isHeld()).toBe(false)
  expect((await erase()).body).toMatchObject({ data: { code: 'RESOURCE_NOT_FOUND' } })
})

test('repeating the request finishes an erasure', async () => {
  const { erase, breakKv, isHeld, unfinished } = await useBreakableKv()
  const repair = breakKv()
  expect((await erase()).status).toBe(200)
  repair()
  await vi.waitFor(async () => expect(await isHeld()).toBe(true))
  expect((await erase()).body).toEqual({ success: true })
  expect([await isHeld(), await unfinished()]).toEqual([false, []])
})

test('an erasure writes one audit event, even if it is repeated', async () => {
  const { app, erase, breakKv } = await useBreakableKv()
  const repair = breakKv()
  expect([(await erase()).status, (await erase()).status]).toEqual([200, 200])
  repair()
  const rows = await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`select from audit_events where action = 'end_user.erased'`,
  )
  expect(rows).toHaveLength(1)
})

test('removing a member works while the key-value store is unavailable, and ends their access immediately', async () => {
  const { app, admin, breakKv, organizationId } = await useBreakableKv()
  const member = await app.tokenFor('member@demo.test', 'demo')
  const read = async () => (await app.request('GET', '/publishable-keys', { token: member })).status
  expect(await read()).toBe(200)
  const members = (await app.request('GET', '/organizations/current/members', { token: admin })).body
  const { id } = members.find((entry: { user: { email: string } }) => entry.user.email === 'member@demo.test')
  const unfinished = () => app.service.database.asOrg(organizationId, selectAccessCleanups)

  const repair = breakKv()
  const removal = await app.request('DELETE', `/organizations/current/members/${id}`, { token: admin })
  expect(removal.body).toEqual({ success: true })
  expect(await read()).toBe(403)
  expect(await unfinished()).toHaveLength(1)
  repair()
  await retryNow(app)
  await vi.waitFor(async () => expect(await unfinished()).toHaveLength(0))
})
