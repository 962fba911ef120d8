import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { doOnce, type TestService, useTestService } from '../../../test/harness.ts'
import { verifyAuditChain } from '../../organizations/audit-events/verify.ts'
import { newId } from '../lib/ids.ts'
import { auditKeys, chainHash, emptyChain, formatHead } from './audit/chain.ts'
import { withMaintenance } from './postgres/maintenance.ts'
import { keepRetention } from './retention.ts'

const now = new Date()
/** The tenth day of a month that is so many months before the current one. */
const monthsAgo = (months: number) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, 10))

async function connectOwner({ stores }: TestService): Promise<pg.Client> {
  const owner = new pg.Client(stores.owner)
  await owner.connect()
  onTestFinished(() => owner.end())
  return owner
}

/** A service that was installed half a year ago, and keeps two months before the current one. */
async function startOldService(): Promise<TestService> {
  const kept = { INLAY_KEEP_USAGE_MONTHS: '2', INLAY_KEEP_TOOL_CALL_MONTHS: '2', INLAY_KEEP_AUDIT_MONTHS: '2' }
  const app = await useTestService(kept)
  const owner = await connectOwner(app)
  await owner.query('drop table usage_events_earlier, tool_call_records_earlier, audit_events_earlier')
  await owner.query('select make_partitions($1, 6)', [monthsAgo(6)])
  return app
}

const drop = (app: TestService) => doOnce(keepRetention(app.stores, app.service))

/** A trail with an event at each of these times. Returns the head after each. */
async function makeTrail({ service, stores }: TestService, id: string, times: Date[]): Promise<string[]> {
  const hashes: string[] = []
  const [key] = auditKeys(stores.secrets)
  await service.database.asOrg(id, async (sql) => {
    await sql`
      insert into organizations (id, name, slug) values (${id}, 'Some', ${id}) on conflict (id) do nothing`
    for (const [index, time] of times.entries()) {
      const row = {
        ...{ organization_id: id, sequence: index + 1, id: newId(), actor: 'ann@example.com', actor_id: null },
        ...{ action: 'thing.done', target: 'x', data: {}, created_at: time.toISOString() },
      }
      const hash = chainHash(key, hashes.at(-1) ?? emptyChain, row)
      hashes.push(hash)
      const stored = JSON.stringify({ ...row, key_id: key.id, hash: `\\x${hash}` })
      await sql`insert into audit_events select * from jsonb_populate_record(null::audit_events, ${stored}::jsonb)`
    }
    await sql`
      insert into audit_chains (organization_id, length, hash) values (${id}, ${times.length}, decode(${hashes.at(-1)}, 'hex'))`
  })
  return hashes
}

const numbersOf = ({ service }: TestService, id: string) =>
  service.database.asOrg(id, (sql) => sql`select sequence, action from audit_events order by sequence`)

test('old months of an audit trail are dropped, and the rest is verified from there', async () => {
  const app = await startOldService()
  const [id, recent] = [newId(), newId()]
  const hashes = await makeTrail(app, id, [5, 4, 4, 2, 1, 0].map(monthsAgo))
  await makeTrail(app, recent, [1, 0].map(monthsAgo))
  const verify = (options?: Parameters<typeof verifyAuditChain>[2]) => verifyAuditChain(app.stores, id, options)
  const before = await verify()
  expect(before).toMatchObject({ length: 6 })
  await drop(app)
  const left = await numbersOf(app, id)
  expect(left).toEqual([
    ...[4, 5, 6].map((sequence) => ({ sequence, action: 'thing.done' })),
    { sequence: 7, action: 'audit.events_dropped' },
  ])
  expect(await numbersOf(app, recent)).toHaveLength(2)

  const whole = await verify()
  expect(whole).toMatchObject({ length: 7 })
  expect(whole).not.toHaveProperty('broken')
  const noted = (sequence: number, hash = hashes[sequence - 1] ?? '') => [{ organizationId: id, sequence, hash }]
  for (const sequence of [1, 3, 4, 6])
    expect(await verify({ earlier: noted(sequence) }), `${sequence}`).not.toHaveProperty('broken')
  expect(await verify({ earlier: noted(3, 'f'.repeat(64)) })).toMatchObject({ broken: { sequence: 3 } })
  const reports = [before, { ...before, length: 2, head: hashes[1] ?? '' }]
  for (const from of reports) expect(await verify({ from })).toMatchObject({ length: 7, head: whole.head })

  await drop(app)
  expect(await numbersOf(app, id), 'nothing is noted twice').toEqual(left)
})

test('a trail whose old months were dropped is listed, exported and shown as intact', async () => {
  const app = await startOldService()
  const id = await app.organization('demo')
  const admin = await app.tokenFor('admin@demo.test', 'demo')
  const owner = await connectOwner(app)
  await owner.query('alter table audit_events no force row level security')
  await owner.query('alter table audit_chains no force row level security')
  await owner.query('delete from audit_events where organization_id = $1', [id])
  await owner.query('delete from audit_chains where organization_id = $1', [id])
  await owner.query('alter table audit_events force row level security')
  const hashes = await makeTrail(app, id, [5, 4, 1].map(monthsAgo))
  const list = async () => {
    const { status, body } = await app.request('GET', '/audit-events', { token: admin })
    expect(status).toBe(200)
    return body
  }
  const verified = async (newer: number) => {
    for (;;) {
      const { verification } = await list()
      if (verification.newer_events === newer && verification.status !== 'unverified') return verification
    }
  }
  expect(await verified(0)).toMatchObject({ status: 'intact', length: 3 })
  await drop(app)
  const { events, verification } = await list()
  expect(events.map(({ sequence }: { sequence: number }) => sequence)).toEqual([4, 3])
  expect(verification).toMatchObject({ status: 'intact' })
  expect(await verified(0)).toMatchObject({ status: 'intact', length: 4 })

  const exported = async (from?: number) => {
    const head = from && formatHead({ organizationId: id, sequence: from, hash: hashes[from - 1] ?? '' })
    return app.request('GET', `/audit-events/export${head ? `?from=${head}` : ''}`, { token: admin })
  }
  const numbers = (body: { sequence: number }[]) => body.map(({ sequence }) => sequence)
  expect(numbers((await exported()).body)).toEqual([3, 4])
  expect(numbers((await exported(2)).body)).toEqual([3, 4])
  expect((await exported(1)).body.code ?? (await exported(1)).body.data.code).toBe('AUDIT_HEAD_NOT_FOUND')
})

test('the deletion of more of a trail than the dropped months is noticed', async () => {
  const app = await startOldService()
  const id = newId()
  await makeTrail(app, id, [5, 4, 2, 1, 0].map(monthsAgo))
  await drop(app)
  const owner = await connectOwner(app)
  await owner.query('alter table audit_events no force row level security')
  await owner.query('delete from audit_events where organization_id = $1 and sequence = 3', [id])
  expect(await verifyAuditChain(app.stores, id)).toMatchObject({
    broken: { sequence: 1, problem: 'the row is missing' },
  })
})

test('old months of usage events and records of tool calls are dropped, and sums stay', async () => {
  const app = await startOldService()
  const id = await app.organization('demo')
  const count = () =>
    app.service.database.asOrg(
      id,
      (sql) => sql`
        select (select count(*) from usage_events where model = 'x') as events,
               (select count(*) from tool_call_records where tool = 'x') as calls,
               (select sum(requests) from usage_model_days where model = 'x') as sums`,
    )
  await app.service.database.asOrg(id, async (sql) => {
    for (const at of [5, 2, 0].map((months) => monthsAgo(months).toISOString())) {
      await sql`
        insert into usage_events (organization_id, id, prompt_tokens, completion_tokens, model, finish_reason, created_at)
        values (${id}, ${newId()}, 1, 1, 'x', 'stop', ${at})`
      await sql`
        insert into usage_model_days (organization_id, day, model, requests, prompt_tokens, completion_tokens)
        values (${id}, ${at.slice(0, 10)}, 'x', 1, 1, 1)`
      await sql`
        insert into tool_call_records (organization_id, at, id, user_id, tool, arguments_hash, approval, governance,
                                       outcome, duration_ms)
        values (${id}, ${at}, ${newId()}, ${newId()}, 'x', '', 'allowed', 'none', 'succeeded', 1)`
    }
  })
  await doOnce(keepRetention(app.stores, { ...app.service, config: { keptMonths: keepsAll } }))
  expect(await count()).toEqual([{ events: 3, calls: 3, sums: 3 }])
  await drop(app)
  expect(await count()).toEqual([{ events: 2, calls: 2, sums: 3 }])
  const token = await app.tokenFor('admin@demo.test', 'demo')
  for (const path of ['/tool-calls', '/usage/daily', '/usage/models'])
    expect((await app.request('GET', path, { token })).status, path).toBe(200)
})

const keepsAll = { usage_events: undefined, tool_call_records: undefined, audit_events: undefined }

test('nobody can drop the current month', async () => {
  const app = await useTestService()
  const next = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1))
  const dropping = withMaintenance(app.stores.maintenance, (client) =>
    client.query('select drop_partitions($1, $2)', ['audit_events', next]),
  )
  await expect(dropping).rejects.toMatchObject({ code: '42501' })
})
