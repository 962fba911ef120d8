import pg from 'pg'
import { expect, inject, onTestFinished, test } from 'vitest'
import { doOnce, startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { newId } from '../lib/ids.ts'
import { keepPartitions } from './postgres/partitions.ts'
import { keepTablesAnalyzed } from './postgres/table-statistics.ts'

/** A service on the database of another one, with a DATABASE_URL whose role owns nothing and may do nothing. */
async function startUnprivileged(app: TestService, env: Record<string, string> = {}): Promise<TestService> {
  const database = app.stores.owner.database ?? ''
  const role = `plain_${newId().replaceAll('-', '')}`
  const superuser = new pg.Client(inject('engines').superuserUrl.replace('DATABASE', database))
  await superuser.connect()
  await superuser.query(`create role ${role} login password 'plain'`)
  onTestFinished(async () => {
    await superuser.query(`drop role ${role}`)
    await superuser.end()
  })
  const url = new URL(app.config.databaseUrl ?? '')
  url.username = role
  url.password = 'plain'
  const service = await startTestService({ DATABASE_URL: url.href, INLAY_MIGRATE_ON_START: 'off', ...env })
  onTestFinished(() => service.close())
  return service
}

test('a server without the owner’s password serves requests, makes partitions, analyzes tables and erases organizations', async () => {
  const owned = await useTestService()
  const app = await startUnprivileged(owned)
  const owner = new pg.Client(app.stores.owner)
  await owner.connect()
  await expect(owner.query('select from organizations')).rejects.toMatchObject({ code: '42501' })
  await owner.end()

  const token = await app.tokenFor('admin@demo.test', 'demo')
  const body = { name: 'Shop', allowed_origins: ['https://shop.example'] }
  expect((await app.request('POST', '/publishable-keys', { token, body })).status).toBe(200)

  app.clock.now += 90 * 24 * 60 * 60_000
  await doOnce(keepPartitions(app.stores, app.service))
  await doOnce(keepTablesAnalyzed(app.stores, app.service.log))
  expect(app.logged()).not.toContain('Could not')

  const [id, erasureId] = [newId(), newId()]
  await app.service.database.asOrg(
    id,
    (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`,
  )
  await app.service.database.asService(
    (sql) =>
      sql`insert into organization_erasures (id, organization_hash, pending_id) values (${erasureId}, '', ${id})`,
  )
  expect(await app.stores.eraseTenant({ erasureId, organizationId: id, signal: new AbortController().signal })).toBe(
    true,
  )
  expect(await app.service.database.asOrg(id, (sql) => sql`select from organizations`)).toEqual([])
})

test('a server without the owner’s password doesn’t start on an older schema, and says what to run', async () => {
  const app = await useTestService()
  const owner = new pg.Client(app.stores.owner)
  await owner.connect()
  onTestFinished(() => owner.end())
  await owner.query(`delete from migrations where name = '0011_partitions.sql'`)
  await expect(startUnprivileged(app)).rejects.toMatchObject({
    name: 'MigrationFailed',
    message: expect.stringMatching(/^The schema lacks 0011_partitions.sql. Run `npx inlay migrate` with this release/),
  })
})

test('a server without the owner’s password doesn’t start with a secret that the database wasn’t migrated with', async () => {
  const app = await useTestService()
  await expect(startUnprivileged(app, { INLAY_SECRET: 'another-secret-0123456789-abcdefghij' })).rejects.toMatchObject({
    name: 'MigrationFailed',
    message: expect.stringMatching(/^The database isn't set up for this server \(.+\)\. Run `npx inlay migrate`/),
  })
})
