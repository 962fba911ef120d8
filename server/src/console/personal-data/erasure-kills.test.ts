import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, inject, test, vi } from 'vitest'
import { startEngineProxy } from '../../../test/engine-proxy.ts'
import { testSecret } from '../../../test/engines/engines.ts'
import { type TestService, useTestService } from '../../../test/harness.ts'
import { countRows } from '../../../test/tenant-tables.ts'
import { requestOwnJob } from '../../kernel/jobs/requests.ts'
import { requestAccessCleanup, selectAccessCleanups } from '../../organizations/access-cleanup/access-cleanup.ts'
import { organizationErasure } from './erasures.ts'

const { redisUrl } = inject('engines')

/** An organization with 100 000 usage events that was deleted a moment ago, and whose erasure nobody has begun. */
async function deleteLarge(app: TestService): Promise<{ erasureId: string; organizationId: string }> {
  const [erasureId, organizationId] = [randomUUID(), await app.organization('demo')]
  // In parts, because a busy machine takes longer for all at once than a statement may take.
  for (let part = 0; part < 20; part += 1)
    await app.service.database.asOrg(
      organizationId,
      (sql) => sql`
        insert into usage_events (organization_id, id, prompt_tokens, completion_tokens, model, finish_reason, created_at)
        select current_organization(), gen_random_uuid(), 1, 1, 'm', 'stop', now() from generate_series(1, 5000)`,
    )
  await app.service.database.asService(
    (sql) => sql`
      insert into organization_erasures (id, organization_hash, pending_id)
      values (${erasureId}, 'x', ${organizationId})`,
  )
  return { erasureId, organizationId }
}

const readCounts = async (app: TestService, erasureId: string) => {
  const [row] = await app.service.database.asService(
    (sql) => sql<{ counts: Record<string, number>; finished_at: string | null }>`
      select counts, finished_at from organization_erasures where id = ${erasureId}`,
  )
  return row
}

const requestErasure = (app: TestService, erasureId: string) =>
  app.service.database.asService((sql) => requestOwnJob(sql, organizationErasure, erasureId))

test('kill -9 in the middle of 100 000 rows: another node finishes, and the counts are exact', async () => {
  const app = await useTestService()
  const { erasureId, organizationId } = await deleteLarge(app)
  const eraser = spawn(
    process.execPath,
    [join(import.meta.dirname, '../../../test/tenant-eraser.ts'), erasureId, organizationId],
    {
      env: {
        PATH: process.env.PATH,
        DATABASE_URL: app.config.databaseUrl,
        INLAY_SECRET: testSecret,
        INLAY_DATA_DIR: join(app.config.dataDir, 'eraser'),
      },
      stdio: 'inherit',
    },
  )
  const exited = once(eraser, 'exit')
  const erased = async () => (await readCounts(app, erasureId))?.counts.usage_events ?? 0
  await vi.waitFor(async () => expect(await erased()).toBeGreaterThan(0), { timeout: 60_000, interval: 5 })
  eraser.kill('SIGKILL')
  expect((await exited)[1]).toBe('SIGKILL')
  // In one statement, because PostgreSQL may still be finishing the killed node's last one.
  const [cut] = await app.service.database.asOrg(
    organizationId,
    (sql) => sql<{ done: number; left: number }>`
      select (counts ->> 'usage_events')::int as done, (select count(*) from usage_events) as left
      from organization_erasures where id = ${erasureId}`,
  )
  const { done = 0, left = 0 } = cut ?? {}
  expect([done < 100_000, done + left]).toEqual([true, 100_000])

  await requestErasure(app, erasureId)
  const isFinished = async () =>
    expect(await readCounts(app, erasureId)).toMatchObject({ finished_at: expect.any(String) })
  await vi.waitFor(isFinished, { timeout: 60_000, interval: 50 })
  expect(await erased()).toBe(100_000)
  expect(await countRows(app, organizationId)).toEqual({})
}, 180_000)

test.skipIf(!redisUrl)(
  'while the key-value store is unavailable, the erasure stays unfinished, and converges later',
  async () => {
    const redis = await startEngineProxy(redisUrl ?? '')
    const app = await useTestService({ REDIS_URL: redis.url })
    const { erasureId, organizationId } = await deleteLarge(app)
    await app.service.kv.set(`identity:${organizationId}:x`, 1)
    redis.cut()
    await requestErasure(app, erasureId)
    await vi.waitFor(async () => expect(await countRows(app, organizationId)).toEqual({}), { timeout: 60_000 })
    expect(await readCounts(app, erasureId)).toMatchObject({ finished_at: null })
    redis.restore()
    const isFinished = async () =>
      expect(await readCounts(app, erasureId)).toMatchObject({ finished_at: expect.any(String) })
    await vi.waitFor(isFinished, { timeout: 60_000 })
    expect(await app.service.kv.get(`identity:${organizationId}:x`)).toBeUndefined()
  },
  180_000,
)

test.skipIf(!redisUrl)(
  'deleting an organization waits for the tokens that users gave to be deleted and revoked',
  async () => {
    const redis = await startEngineProxy(redisUrl ?? '')
    const app = await useTestService({ REDIS_URL: redis.url })
    const { organizationId, erasureId } = await deleteLarge(app)
    await app.service.database.asOrg(organizationId, (sql) => requestAccessCleanup(sql, [randomUUID()]))
    redis.cut()
    await requestErasure(app, erasureId)
    await app.service.erasures.run(erasureId)
    expect(await app.service.database.asOrg(organizationId, selectAccessCleanups)).toHaveLength(1)
    expect(await countRows(app, organizationId)).toMatchObject({ usage_events: 100_000 })
    redis.restore()
    const isFinished = async () =>
      expect(await readCounts(app, erasureId)).toMatchObject({ finished_at: expect.any(String) })
    await vi.waitFor(isFinished, { timeout: 60_000 })
  },
  180_000,
)
