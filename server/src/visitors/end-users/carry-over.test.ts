import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { startIdp } from '../../../test/delegation.ts'
import { type TestService, useTestService } from '../../../test/harness.ts'
import { usageRecord } from '../../../test/usage-records.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { withMaintenance } from '../../kernel/stores/postgres/maintenance.ts'
import { recordUsage } from '../../plans/usage/record.ts'
import { checkHolder, findStanding } from '../tickets/standing.ts'

/** An organization that replaced its identity provider. */
let app: TestService
let admin: string
let demo: string
let key: { id: string; key: string }
let former: Awaited<ReturnType<typeof startIdp>>
let current: typeof former
beforeEach(async () => {
  app = await useTestService()
  admin = await app.tokenFor('admin@demo.test', 'demo')
  demo = await app.organization('demo')
  key = (await app.request('POST', '/publishable-keys', { token: admin, body: { name: 'Widget' } })).body
  const start = () => startIdp(() => Math.floor(app.clock.now / 1000))
  ;[former, current] = [await start(), await start()]
  onTestFinished(async () => void (await Promise.all([former.stop(), current.stop()])))
})

const trust = ({ url }: typeof former) =>
  app.request('PATCH', '/identity-providers/config', {
    token: admin,
    body: { idp_type: 'custom_oidc', idp_issuer: url, allowed_audiences: ['shop'] },
  })
/** The ID of the end user whom a token of the provider leads to. */
async function come(idp: typeof former, sub: string, email = `${sub}@acme.example`, email_verified = true) {
  const id_token = await idp.idToken({ sub, email, email_verified })
  const { status, body } = await app.request('POST', '/auth/pk-ticket', {
    body: { publishable_key: key.key, id_token },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.userId as string
}
const carryOver = async (body: object) =>
  (
    await app.request('POST', '/identity-providers/carry-over', {
      token: admin,
      body: { from_issuer: former.url, is_preview: false, ...body },
    })
  ).body
const inOrg = <T>(work: (sql: Sql) => Promise<T>): Promise<T> => app.service.database.asOrg(demo, work)

async function addThread(endUserId: string): Promise<string> {
  const id = randomUUID()
  await inOrg(
    (sql) => sql`insert into threads (organization_id, id, end_user_id) values (${demo}, ${id}, ${endUserId})`,
  )
  return id
}
const threadsOf = async (endUserId: string) =>
  (await inOrg((sql) => sql<{ id: string }>`select id from threads where end_user_id = ${endUserId} order by id`)).map(
    ({ id }) => id,
  )

describe('after a change of the provider', () => {
  test('a list carries end users over, whether they have come from the new provider or not', async () => {
    await trust(former)
    const [ann, bob, eve] = [await come(former, 'a-1'), await come(former, 'b-1'), await come(former, 'e-1')]
    const [annsThread, bobsThread] = [await addThread(ann), await addThread(bob)]
    await trust(current)
    const arrived = await come(current, 'ann', 'other@acme.example')
    const since = await addThread(arrived)
    const users = [
      { from: 'a-1', to: 'ann' },
      { from: 'b-1', to: 'bob' },
      { from: 'nobody', to: 'x' },
    ]
    const expected = {
      to_issuer: current.url,
      carried_over: 2,
      merged: 1,
      conflict_count: 1,
      conflicts: [{ external_id: 'nobody', reason: 'unknown' }],
      is_complete: true,
    }
    expect(await carryOver({ by: 'list', users, is_preview: true })).toEqual({ is_preview: true, ...expected })
    expect(await threadsOf(ann), 'a preview changes nothing').toEqual([annsThread])
    expect(await carryOver({ by: 'list', users })).toEqual({ is_preview: false, ...expected })

    expect([await come(current, 'ann', 'other@acme.example'), await come(current, 'bob')]).toEqual([ann, bob])
    expect(await threadsOf(ann)).toEqual([annsThread, since].toSorted())
    expect(await threadsOf(bob)).toEqual([bobsThread])
    const { users: listed } = (await app.request('GET', '/end-users', { token: admin })).body
    expect(listed.map(({ id }: { id: string }) => id).toSorted()).toEqual([ann, bob, eve].toSorted())
    const events = (await app.request('GET', '/audit-events?action=end_users.carried_over', { token: admin })).body
      .events
    expect(events).toMatchObject([
      {
        actor: 'admin@demo.test',
        data: { from_issuer: former.url, to_issuer: current.url, by: 'list', conflicts: 1, end_user_ids: [ann, bob] },
      },
    ])
    // The same request again finds nobody.
    expect(await carryOver({ by: 'list', users })).toMatchObject({ carried_over: 0, conflict_count: 3 })
  })

  test('a list carries over the contents of tool calls, also those that are written after it', async () => {
    await app.request('PATCH', '/tool-calls/settings', { token: admin, body: { contents_days: 30 } })
    await trust(former)
    const kim = await come(former, 'k-1')
    await trust(current)
    const arrived = await come(current, 'kim')
    const call = (n: number) =>
      app.service.toolCalls.follow(
        {
          ...{ organizationId: demo, id: arrived, endUserId: arrived, email: '', email_verified: false },
          ...{ owner: { organization_id: demo, identity: '' }, client_id: undefined, client_name: undefined },
          member: undefined,
        },
        { tool_name: 'add', args: { n } },
        async () => n,
      )
    await call(1)
    await app.service.toolCalls.flush()
    await call(2)
    expect(await carryOver({ by: 'list', users: [{ from: 'k-1', to: 'kim' }] })).toMatchObject({ merged: 1 })
    await app.service.toolCalls.flush()
    const kept = await inOrg(
      (sql) => sql`select arguments from tool_call_contents where end_user_id = ${kim} order by arguments`,
    )
    expect(kept).toEqual([{ arguments: '{"n":1}' }, { arguments: '{"n":2}' }])
  })

  test('an address carries over only whom both providers have verified, and nobody else has', async () => {
    await trust(former)
    const ann = await come(former, 'a-1', 'Ann@acme.example')
    const unsure = await come(former, 'u-1', 'unsure@acme.example', false)
    const shy = await come(former, 's-1', 'shy@acme.example')
    const twins = [await come(former, 't-1', 'twin@acme.example'), await come(former, 't-2', 'twin@acme.example')]
    const absent = await come(former, 'absent')
    await come(former, 'k-1', 'mi\u212ae@acme.example')
    await trust(current)
    const arrived = [
      await come(current, 'ann', 'ann@acme.example'),
      await come(current, 'unsure', 'unsure@acme.example'),
      await come(current, 'shy', 'shy@acme.example', false),
      await come(current, 'twin', 'twin@acme.example'),
      await come(current, 'mike', 'mike@acme.example'),
    ]
    const answer = await carryOver({ by: 'email' })
    expect(answer).toMatchObject({ carried_over: 1, merged: 1, conflict_count: 4, is_complete: true })
    expect(answer.conflicts).toEqual(
      expect.arrayContaining([
        { external_id: 'u-1', reason: 'unverified' },
        { external_id: 's-1', reason: 'unverified' },
        { external_id: 't-1', reason: 'ambiguous' },
        { external_id: 't-2', reason: 'ambiguous' },
      ]),
    )
    expect(await come(current, 'ann', 'ann@acme.example')).toBe(ann)
    expect(await come(current, 'unsure', 'unsure@acme.example')).toBe(arrived[1])
    expect(await come(current, 'absent')).not.toBe(absent)
    await trust(former)
    expect(await come(former, 'u-1', 'unsure@acme.example', false)).toBe(unsure)
    expect([await come(former, 's-1'), await come(former, 't-1'), await come(former, 't-2')]).toEqual([shy, ...twins])
    expect(await come(former, 'a-1', 'Ann@acme.example'), 'carried over, so somebody new').not.toBe(ann)
  })

  test('an end user who came by a widget ID token loses access by a merge with the end user they were before', async () => {
    await trust(former)
    const ann = await come(former, 'a-1')
    await trust(current)
    const arrived = await come(current, 'ann')
    const used = (end_user_id: string) => usageRecord(demo, { end_user_id })
    await recordUsage(app.service, [used(ann), used(arrived), used(arrived)])
    const end_user = { id: arrived, verified_email: undefined, identity_expires_at: app.clock.now + 1e6, provider: '' }
    const holder = {
      organization_id: demo,
      publishable_key_id: key.id,
      origin: undefined,
      site_id: undefined,
      end_user,
    }
    const standing = () => inOrg((sql) => findStanding(sql, app.service.config, [holder]))
    expect(await standing()).toEqual(['terms_changed'])
    await carryOver({ by: 'list', users: [{ from: 'a-1', to: 'ann' }] })
    expect(await standing()).toEqual(['user_removed'])
    const totals = async (id: string) =>
      (await app.request('GET', `/usage/end-users/${id}/stats`, { token: admin })).body
    expect(await totals(ann)).toMatchObject({ total_requests: 3 })
    const spans = await inOrg(
      (sql) => sql<{ days: number; requests: number }>`
        select days, requests from usage_end_user_spans where end_user_id = ${ann} order by days`,
    )
    expect(spans).toEqual([
      { days: 1, requests: 3 },
      { days: 8, requests: 3 },
    ])
    expect((await app.request('GET', `/end-users/${arrived}`, { token: admin })).status).toBe(404)
  })

  test('an end user who came by an ID token over AG-UI loses access by a merge with the end user they were before', async () => {
    await trust(former)
    await come(former, 'a-1')
    await trust(current)
    const id_token = await current.idToken({ sub: 'ann', email: 'ann@acme.example', email_verified: true })
    const body = { publishable_key: key.key, id_token }
    const ticket = async () => (await app.request('POST', '/auth/pk-ticket', { body })).body.ticket
    const { status, body: session } = await app.request('POST', '/agent/session', { body: { ticket: await ticket() } })
    expect(status, JSON.stringify(session)).toBe(200)
    const unused = await ticket()
    const { holder } = app.service.agentSessions.open(session.token) ?? {}
    const standing = () => holder && checkHolder(app.service, holder)
    expect(await standing()).toBe('stands')
    await carryOver({ by: 'list', users: [{ from: 'a-1', to: 'ann' }] })
    expect(await standing()).toBe('user_removed')
    expect((await app.request('POST', '/agent/session', { body: { ticket: unused } })).status).toBe(401)
  })

  test('issuers are listed with their end users, those of no known issuer too', async () => {
    await inOrg(
      (sql) => sql`insert into end_users (organization_id, id, external_id) values (${demo}, ${randomUUID()}, 'old')`,
    )
    await trust(former)
    await come(former, 'a-1')
    await come(former, 'b-1')
    await trust(current)
    const list = async () => (await app.request('GET', '/identity-providers/issuers', { token: admin })).body
    expect(await list()).toEqual({
      current_issuer: current.url,
      issuers: [
        { issuer: former.url, end_users: 2 },
        { issuer: null, end_users: 1 },
      ],
    })
    expect(await carryOver({ from_issuer: null, by: 'list', users: [{ from: 'old', to: 'new' }] })).toMatchObject({
      carried_over: 1,
      merged: 0,
    })
    expect((await list()).issuers).toContainEqual({ issuer: current.url, end_users: 1 })
  })

  test('more end users than fit in a request are carried over in several', async () => {
    await trust(current)
    const add = (issuer: string, prefix: string) =>
      inOrg(
        (sql) => sql`
          insert into end_users (organization_id, id, issuer, external_id, email, metadata)
          select ${demo}, gen_random_uuid(), ${issuer}, ${prefix} || n, 'user-' || n || '@acme.example',
                 case when n <= 1100 then '{"email_verified":true}' else '{}' end
          from generate_series(1, 1200) n`,
      )
    await add(former.url, 'f-')
    await add(current.url, 'c-')
    // A server does this every five seconds.
    await withMaintenance(app.stores.maintenance, (client) => client.query("select analyze_table('end_users')"))
    const first = await carryOver({ by: 'email' })
    expect(first).toMatchObject({ carried_over: 1000, is_complete: false })
    expect(await carryOver({ by: 'email' })).toMatchObject({
      carried_over: 100,
      conflict_count: 100,
      is_complete: true,
    })
  })
})

test.each([
  ['the current issuer', () => ({ from_issuer: current.url, by: 'email' }), 'from_issuer'],
  ['a list without users', () => ({ by: 'list' }), 'users'],
  ['addresses with a list', () => ({ by: 'email', users: [{ from: 'a', to: 'b' }] }), 'users'],
])('%s is refused', async (_, body, field) => {
  await trust(current)
  expect(await carryOver(body())).toMatchObject({ data: { code: 'VALIDATION_ERROR', field } })
})

test('an entry whose subjects are in the list twice is a conflict', async () => {
  await trust(former)
  await come(former, 'a-1')
  await come(former, 'b-1')
  await trust(current)
  const users = [
    { from: 'a-1', to: 'ann' },
    { from: 'b-1', to: 'ann' },
  ]
  expect(await carryOver({ by: 'list', users })).toMatchObject({ carried_over: 0, conflict_count: 2 })
})

test('without a provider, nobody is carried over', async () => {
  expect(await carryOver({ from_issuer: null, by: 'email' })).toMatchObject({ data: { code: 'VALIDATION_ERROR' } })
})
