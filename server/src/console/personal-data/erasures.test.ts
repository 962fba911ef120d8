import { randomUUID } from 'node:crypto'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import { type TestService, useTestService } from '../../../test/harness.ts'
import { pageOrigin } from '../../../test/page.ts'
import { fillTenantTables } from '../../../test/samples.ts'
import { connectDirectory, proveDomains } from '../../../test/scim.ts'
import { useScriptedModel } from '../../../test/scripted-model.ts'
import { startShop, useShop } from '../../../test/shop.ts'
import { startSmtp } from '../../../test/smtp.ts'
import { countRows, listTenantTables, passingTables } from '../../../test/tenant-tables.ts'
import { findUserByEmail } from '../../accounts/users/local-accounts.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { changeSubscription, subscribe } from '../../plans/billing/local-billing.ts'
import { deleteOrganization } from './erasures.ts'

const remove = async (app: TestService, slug = 'demo') =>
  app.request('POST', '/organizations/current/delete', {
    token: await app.tokenFor('admin@demo.test', 'demo'),
    body: { slug },
  })

describe('deleting an organization', () => {
  test('erases every row of it, counts them by table, and leaves other organizations as they are', async () => {
    const app = await useTestService()
    const [demo, other] = [await app.organization('demo'), await app.organization('other')]
    for (const slug of ['demo', 'other'] as const) await fillTenantTables(app, slug)
    const before = await countRows(app, demo)
    const tables = (await listTenantTables(app)).map(({ name }) => name)
    expect(Object.keys(before)).toEqual(expect.arrayContaining(tables.filter((name) => !passingTables.includes(name))))
    const keptRows = async (id: string) => {
      const rows = Object.entries(await countRows(app, id))
      return rows.filter(([table]) => !passingTables.includes(table))
    }
    const neighbor = await keptRows(other)

    const { status, body } = await remove(app)
    expect({ status, body }).toMatchObject({ status: 200 })
    expect(body).toMatchObject({ organization_hash: fingerprint(demo), finished_at: expect.any(String) })
    const uncounted = Object.entries(before).filter(([table, rows]) => !((body.counts[table] ?? 0) >= rows))
    expect(uncounted.filter(([table]) => !passingTables.includes(table))).toEqual([])
    expect(await countRows(app, demo)).toEqual({})
    expect(await keptRows(other)).toEqual(neighbor)
  })

  test('erases its entries in the key-value store, and no others', async () => {
    const app = await useTestService()
    const { kv } = app.service
    const [demo, other] = [await app.organization('demo'), await app.organization('other')]
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const create = () =>
      app.request('POST', '/publishable-keys', {
        token,
        body: { name: 'Shop' },
        headers: { 'idempotency-key': 'one' },
      })
    expect((await create()).status).toBe(200)
    for (const id of [demo, other]) {
      await kv.set(`identity:${id}:x`, 1)
      await kv.set(`token:${id}:x:y`, 1)
      await kv.count(`billing-requests:${id}`, 60)
    }
    await remove(app)
    const left = async (id: string) => [await kv.get(`identity:${id}:x`), await kv.get(`token:${id}:x:y`)]
    expect(await left(demo)).toEqual([undefined, undefined])
    expect(await kv.count(`billing-requests:${demo}`, 60)).toBe(1)
    expect(await left(other)).toEqual([1, 1])
    expect(await kv.count(`billing-requests:${other}`, 60)).toBe(2)
  })

  test('leaves no job, also if one is requested meanwhile or later', async () => {
    const app = await useTestService()
    const organizationId = await app.organization('demo')
    const { database } = app.service
    const request = (key: string) => (sql: Sql) => requestJob(sql, 'test', { key })
    const isRequested = Promise.withResolvers<number>()
    const isWaiting = Promise.withResolvers<void>()
    onTestFinished(() => isWaiting.resolve())
    const meanwhile = database.asOrg(organizationId, async (sql) => {
      await request('meanwhile')(sql)
      const [own] = await sql<{ pid: number }>`select pg_backend_pid() as pid`
      isRequested.resolve(own?.pid ?? 0)
      await isWaiting.promise
    })
    const pid = await isRequested.promise
    const removed = remove(app)
    await vi.waitFor(async () => {
      const waiting = await database.asService(
        (sql) => sql`select from pg_stat_activity where ${pid} = any(pg_blocking_pids(pid))`,
      )
      expect(waiting).not.toEqual([])
    })
    isWaiting.resolve()
    await meanwhile
    expect((await removed).body).toMatchObject({ finished_at: expect.any(String) })
    await database.asOrg(organizationId, request('later'))
    expect(await database.asWorker((sql) => sql`select from jobs where organization_id = ${organizationId}`)).toEqual(
      [],
    )
  })

  test('drops mail about its invitations that wasn’t sent yet', async () => {
    const smtp = await startSmtp()
    onTestFinished(() => smtp.close())
    smtp.trouble = () => 'hang up'
    const app = await useTestService(smtp.env)
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const body = { email: 'new@example.com', role: 'member' }
    expect(await app.request('POST', '/organizations/current/invitations', { token, body })).toMatchObject({
      body: { mailed: true },
    })
    const waiting = () => app.service.database.asService((sql) => sql`select from mail_outbox`)
    expect(await waiting()).toHaveLength(1)
    await remove(app)
    expect(await waiting()).toEqual([])
  })

  test('deletes the accounts that only a directory created, and keeps all others', async () => {
    const app = await useTestService()
    const directory = await connectDirectory(app)
    await proveDomains(app, await app.organization('demo'), 'demo.test')
    const userId = await directory.addUser('new@demo.test')
    await directory.mapGroup(await directory.addGroup('Everyone', [userId]), 'member')
    const accounts = () =>
      app.service.database.asService(
        (sql) => sql<{ email: string }>`select email from users where email like '%@demo.test' order by email`,
      )
    expect((await accounts()).map(({ email }) => email)).toContain('new@demo.test')
    expect((await remove(app)).body.counts).toMatchObject({ users: 1, members: 2 })
    const left = (await accounts()).map(({ email }) => email)
    expect(left).toEqual(expect.arrayContaining(['admin@demo.test', 'member@demo.test']))
    expect(left).not.toContain('new@demo.test')
  })

  test('ends the memberships of its single sign-on accounts in other organizations, and records that there', async () => {
    const app = await useTestService()
    const [demo, other] = [await app.organization('demo'), await app.organization('other')]
    const [user, email] = [randomUUID(), 'ann@acme.example']
    await app.service.database.asService(
      (sql) => sql`
        insert into users (id, issuer, subject, email, email_verified, name)
        values (${user}, ${`org:${demo}:https://sso.example.com`}, 'ann', ${email}, true, 'Ann')`,
    )
    await app.service.database.asOrg(
      other,
      (sql) => sql`
        insert into members (organization_id, id, user_id, role)
        values (current_organization(), ${randomUUID()}, ${user}, 'member')`,
    )
    await remove(app)
    const left = await app.service.database.asOrg(other, (sql) =>
      Promise.all([
        sql`select from members where user_id = ${user}`,
        sql`select actor, action from audit_events where data ->> 'email' = ${email}`,
      ]),
    )
    expect(left).toEqual([[], [{ actor: 'inlay', action: 'member.removed' }]])
  })

  test('needs its slug', async () => {
    const app = await useTestService()
    for (const slug of ['other', 'Demo', ''])
      expect((await remove(app, slug)).body.data, slug).toMatchObject({ code: 'VALIDATION_ERROR', field: 'slug' })
    expect(await countRows(app, await app.organization('demo'))).toMatchObject({ organizations: 1 })
  })

  test('is refused while a subscription renews', async () => {
    const app = await useTestService()
    const demo = await app.organization('demo')
    await subscribe(app.service, demo, 'inlay_team')
    const refused = await remove(app)
    expect(refused).toMatchObject({ status: 409, body: { data: { code: 'SUBSCRIPTION_RENEWS' } } })
    expect(refused.body.message).toContain('Cancel it in the billing portal')
    await changeSubscription(app.service, demo, 'cancel')
    expect((await remove(app)).body).toMatchObject({ finished_at: expect.any(String) })
  })

  test('ends all access immediately: tokens, keys, pages and hub sources', async () => {
    const shop = await useShop()
    const [admin, member] = [
      await shop.tokenFor('admin@demo.test', 'demo'),
      await shop.tokenFor('member@demo.test', 'demo'),
    ]
    const account = (
      await shop.request('POST', '/service-accounts', { token: admin, body: { name: 'CI', role: 'admin' } })
    ).body
    const key = (await shop.request('POST', '/publishable-keys', { token: admin, body: { name: 'Late' } })).body
    const [page, visitor] = [await shop.page({ sub: 'ann' }), await shop.page()]
    const read = async (token: string) => (await shop.request('GET', '/publishable-keys', { token })).status
    expect([await read(member), await read(account.key)]).toEqual([200, 200])

    expect((await remove(shop)).status).toBe(200)
    for (const { closed } of [page, visitor]) expect(await closed).toMatchObject({ code: 4403 })
    expect([await read(admin), await read(member), await read(account.key)]).toEqual([403, 403, 401])
    const late = await shop.request('POST', '/auth/pk-ticket', {
      headers: { origin: pageOrigin },
      body: { publishable_key: key.key },
    })
    expect(late.status).toBe(401)
    expect((await shop.request('GET', '/organizations', { token: admin })).body).toEqual([])
  })

  test('ends the agent’s work while it streams', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    onTestFinished(() => resolve())
    const model = await useScriptedModel(() => ({ text: ['Wait', promise] }))
    const shop = await startShop({ MODEL_URL: model.url, MODEL_NAME: 'scripted' })
    onTestFinished(() => shop.close())
    const speakers = [openChat(await shop.page({ sub: 'ann' })), openChat(await shop.page({ sub: 'bob' }))]
    for (const chat of speakers) await chat.until(await chat.say('Hello'), ({ texts }) => texts[0] === 'Wait')
    expect((await remove(shop)).status).toBe(200)
    await vi.waitFor(() => expect(model.aborted()).toBe(2), { timeout: 10_000 })
    expect(model.requests).toHaveLength(2)
  })

  test('happens once if two admins delete it at the same time', async () => {
    const app = await useTestService()
    const statuses = (await Promise.all([remove(app), remove(app)])).map(({ status }) => status)
    expect(statuses.toSorted()).toEqual([200, 403])
    const receipts = () => app.service.database.asService((sql) => sql`select from organization_erasures`)
    expect(await receipts()).toHaveLength(1)
    // As on a node that hasn't heard of the deletion.
    const user = await findUserByEmail(app.service, 'admin@demo.test')
    const organization = { id: await app.organization('demo'), name: 'Demo', slug: 'demo' }
    const late = deleteOrganization(app.service, { organization, role: 'admin', user } as never, { slug: 'demo' })
    await expect(late).rejects.toMatchObject({ envelope: { data: { code: 'ACCESS_DENIED' } } })
    expect(await receipts()).toHaveLength(1)
  })
})

test('the receipt stays readable for the user who deleted the organization', async () => {
  const app = await useTestService()
  const { body } = await remove(app)
  const read = async (email: 'admin@demo.test' | 'member@demo.test') =>
    app.request('GET', `/users/me/organization-erasures/${body.id}`, { token: await app.tokenFor(email) })
  expect((await read('admin@demo.test')).body).toEqual(body)
  expect((await read('member@demo.test')).status).toBe(404)
})

describe('renaming an organization', () => {
  test('changes the name everywhere, keeps the slug, and is recorded', async () => {
    const app = await useTestService()
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const member = await app.tokenFor('member@demo.test', 'demo')
    const nameOf = async () => (await app.request('GET', '/organizations/by-slug/demo', { token: member })).body.name
    expect(await nameOf()).toBe('Demo')
    const renamed = await app.request('PATCH', '/organizations/current', { token, body: { name: ' Acme & Söhne ' } })
    expect(renamed.body).toMatchObject({ name: 'Acme & Söhne', slug: 'demo', role: 'admin' })
    expect(await nameOf()).toBe('Acme & Söhne')
    const repeated = await app.request('PATCH', '/organizations/current', { token, body: { name: 'Acme & Söhne' } })
    expect(repeated.body).toEqual(renamed.body)
    const events = await app.service.database.asOrg(
      await app.organization('demo'),
      (sql: Sql) => sql`select data from audit_events where action = 'organization.renamed'`,
    )
    expect(events).toEqual([{ data: { from: 'Demo', to: 'Acme & Söhne' } }])
  })

  test.each(['', ' ', 'x'.repeat(101), 7])('refuses the name %j', async (name) => {
    const app = await useTestService()
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { body } = await app.request('PATCH', '/organizations/current', { token, body: { name } })
    expect(body.data).toMatchObject({ code: 'VALIDATION_ERROR', field: 'name' })
  })
})
