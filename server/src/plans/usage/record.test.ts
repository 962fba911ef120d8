import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startThread } from '../../../test/conversation-rows.ts'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { addEndUser, addSite, findWrongSums, usageRecord } from '../../../test/usage-records.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { addUsage, recordUsage, type UsageRecord } from './record.ts'

let app: TestService
let demo = ''
let other = ''
beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
  other = await app.organization('other')
})
afterAll(() => app.close())

const countEvents = async (organizationId = demo) => {
  const [row] = await app.service.database.asOrg(
    organizationId,
    (sql) => sql<{ count: number }>`select count(*) from usage_events`,
  )
  return row?.count ?? 0
}

const sumsOf = async (endUserId: string) => {
  const [row] = await app.service.database.asOrg(
    demo,
    (sql) => sql`
      select requests, prompt_tokens, completion_tokens from usage_end_users where end_user_id = ${endUserId}`,
  )
  return row
}

const refusal = (field: string) => ({
  envelope: { status: 400, data: { code: 'VALIDATION_ERROR', field, details: expect.stringMatching(/\S/) } },
})

describe('recordUsage', () => {
  test('stores every field of an event, including its thread', async () => {
    const [end_user_id, site_id] = [await addEndUser(app, demo), await addSite(app, demo)]
    const thread_id = await app.service.database.asOrg(demo, (sql) =>
      startThread(sql, { endUserId: end_user_id, siteId: site_id }),
    )
    const event = usageRecord(demo, {
      end_user_id,
      site_id,
      thread_id,
      is_estimated: true,
      cost_micro_usd: 10_000_000_000_000,
      model: 'größer "x", {y}\\',
      finish_reason: 'NULL',
      created_at: '2026-03-10T23:59:59.999Z',
    })
    expect(await recordUsage(app.service, event)).toBe(1)
    const [row] = await app.service.database.asOrg(
      demo,
      (sql) => sql`select * from usage_events where id = ${event.id}`,
    )
    expect(row).toEqual(event)
    expect(await findWrongSums(app, demo)).toEqual([])
  })

  test('stores an event without a cost, which counts as 0', async () => {
    const end_user_id = await addEndUser(app, demo)
    await recordUsage(app.service, [
      usageRecord(demo, { end_user_id, cost_micro_usd: null }),
      usageRecord(demo, { end_user_id, cost_micro_usd: 12 }),
    ])
    const costs = await app.service.database.asOrg(
      demo,
      (sql) => sql`
        select cost_micro_usd from usage_events where end_user_id = ${end_user_id}
        union all select cost_micro_usd from usage_end_users where end_user_id = ${end_user_id}
        order by cost_micro_usd`,
    )
    expect(costs.flatMap(Object.values)).toEqual([12, 12, null])
    expect(await findWrongSums(app, demo)).toEqual([])
  })

  test('accepts an empty batch', async () => {
    expect(await recordUsage(app.service, [])).toBe(0)
  })

  test.each(['prompt_tokens', 'completion_tokens'] as const)('accepts zero and a billion as %s', async (field) => {
    const end_user_id = await addEndUser(app, demo)
    await recordUsage(app.service, [
      usageRecord(demo, { end_user_id, [field]: 0 }),
      usageRecord(demo, { end_user_id, [field]: 1_000_000_000 }),
    ])
    expect(await sumsOf(end_user_id)).toEqual({
      requests: 2,
      prompt_tokens: 20,
      completion_tokens: 10,
      [field]: 1_000_000_000,
    })
  })

  test('counts an event once, even if it is repeated in a batch, in another batch, or concurrently', async () => {
    const end_user_id = await addEndUser(app, demo)
    const events = Array.from({ length: 20 }, () => usageRecord(demo, { end_user_id }))
    expect(await recordUsage(app.service, [...events, ...events.toReversed()])).toBe(20)
    expect(await recordUsage(app.service, events.slice(5))).toBe(0)
    const fresh = usageRecord(demo, { end_user_id })
    const added = await Promise.all(Array.from({ length: 8 }, () => recordUsage(app.service, [...events, fresh])))
    expect(added.reduce((total, count) => total + count)).toBe(1)
    expect(await sumsOf(end_user_id)).toEqual({ requests: 21, prompt_tokens: 210, completion_tokens: 105 })
  })

  test('keeps the first event if an ID is reused with different values', async () => {
    const end_user_id = await addEndUser(app, demo)
    const first = usageRecord(demo, { end_user_id })
    await recordUsage(app.service, [first, { ...first, prompt_tokens: 99 }])
    await recordUsage(app.service, { ...first, prompt_tokens: 77 })
    expect(await sumsOf(end_user_id)).toEqual({ requests: 1, prompt_tokens: 10, completion_tokens: 5 })
  })

  test.each<[string, string, Partial<UsageRecord>]>([
    ['a negative count', 'prompt_tokens', { prompt_tokens: -1 }],
    ['a fraction', 'completion_tokens', { completion_tokens: 1.5 }],
    ['not a number', 'prompt_tokens', { prompt_tokens: Number.NaN }],
    ['infinity', 'prompt_tokens', { prompt_tokens: Number.POSITIVE_INFINITY }],
    ['more than any model reads', 'prompt_tokens', { prompt_tokens: 1_000_000_001 }],
    ['an unsafe integer', 'completion_tokens', { completion_tokens: Number.MAX_SAFE_INTEGER + 1 }],
    ['a count as a string', 'prompt_tokens', { prompt_tokens: '1' as never }],
    ['a malformed ID', 'id', { id: 'x' }],
    ['a malformed end user ID', 'end_user_id', { end_user_id: 'x' }],
    ['an unknown end user', 'end_user_id', { end_user_id: newId() }],
    ['an unknown thread', 'thread_id', { thread_id: newId() }],
    ['an unknown organization', 'organization_id', { organization_id: newId() }],
    ['a negative cost', 'cost_micro_usd', { cost_micro_usd: -1 }],
    ['a fraction of a micro-USD', 'cost_micro_usd', { cost_micro_usd: 0.5 }],
    ['a cost above ten million USD', 'cost_micro_usd', { cost_micro_usd: 10_000_000_000_001 }],
    ['no cost at all', 'cost_micro_usd', { cost_micro_usd: undefined } as never],
    ['an empty model', 'model', { model: '' }],
    ['a model of 201 characters', 'model', { model: 'x'.repeat(201) }],
    ['NUL', 'finish_reason', { finish_reason: 'a\0' }],
    ['a day that does not exist', 'created_at', { created_at: '2026-02-30T00:00:00.000Z' }],
    ['an unknown field', '', { total_tokens: 1 } as never],
  ])('rejects %s', async (_, field, changes) => {
    const before = await countEvents()
    await expect(recordUsage(app.service, usageRecord(demo, changes))).rejects.toMatchObject(refusal(field))
    expect(await countEvents()).toBe(before)
    expect(await findWrongSums(app, demo)).toEqual([])
  })

  test.each<[string, keyof UsageRecord, () => Promise<string>]>([
    ['end user', 'end_user_id', () => addEndUser(app, other)],
    [
      'thread',
      'thread_id',
      () => app.service.database.asOrg(other, (sql) => startThread(sql, { endUserId: null, siteId: null })),
    ],
  ])(
    'rejects another organization’s %s like an unknown one, along with the rest of the batch',
    async (_, field, add) => {
      const before = [await countEvents(), await countEvents(other)]
      const events = [usageRecord(demo), usageRecord(demo, { [field]: await add() }), usageRecord(demo)]
      const foreign = await recordUsage(app.service, events).catch((error) => error.envelope)
      const unknown = await recordUsage(app.service, usageRecord(demo, { [field]: newId() })).catch(
        (error) => error.envelope,
      )
      expect(foreign).toMatchObject(refusal(field).envelope)
      expect(foreign).toEqual(unknown)
      expect([await countEvents(), await countEvents(other)]).toEqual(before)
    },
  )

  test.each([
    ['was deleted during a session', async () => newId()],
    ['belongs to another organization', () => addSite(app, other)],
  ])('records an event without a site if its site %s', async (_, find) => {
    const event = usageRecord(demo, { site_id: await find() })
    expect(await recordUsage(app.service, event)).toBe(1)
    const [row] = await app.service.database.asOrg(
      demo,
      (sql) => sql`select site_id from usage_events where id = ${event.id}`,
    )
    expect(row).toEqual({ site_id: null })
    expect(await findWrongSums(app, demo)).toEqual([])
  })

  test('rejects a batch with events of two organizations', async () => {
    const before = [await countEvents(), await countEvents(other)]
    await expect(recordUsage(app.service, [usageRecord(demo), usageRecord(other)])).rejects.toMatchObject(
      refusal('organization_id'),
    )
    expect([await countEvents(), await countEvents(other)]).toEqual(before)
  })

  test('rejects an event that would make the cost of a day exceed the safe integers', async () => {
    const created_at = '1998-12-31T00:00:00.000Z'
    const record = (cost_micro_usd: number) =>
      recordUsage(app.service, usageRecord(demo, { created_at, cost_micro_usd }))
    await record(0)
    await app.service.database.asOrg(
      demo,
      (sql) => sql`
        update usage_site_days set cost_micro_usd = ${Number.MAX_SAFE_INTEGER - 5} where day = '1998-12-31'`,
    )
    await expect(record(6)).rejects.toMatchObject(refusal('cost_micro_usd'))
    await expect(record(5)).resolves.toBe(1)
    await app.service.database.asOrg(demo, async (sql) => {
      await sql`delete from usage_events where created_at = ${created_at}`
      await sql`delete from usage_site_days where day = '1998-12-31'`
      await sql`delete from usage_model_days where day = '1998-12-31'`
    })
  })

  test.each([
    ['an end user', 'usage_end_users'],
    ['a day', 'usage_site_days'],
  ])('rejects an event that would make the total of %s exceed the safe integers', async (_, table) => {
    const end_user_id = await addEndUser(app, demo)
    const created_at = '1999-12-31T00:00:00.000Z'
    const record = (prompt_tokens: number) =>
      recordUsage(app.service, usageRecord(demo, { end_user_id, created_at, prompt_tokens, completion_tokens: 0 }))
    const setSum = (tokens: number) =>
      app.service.database.asOrg(demo, (sql) =>
        table === 'usage_end_users'
          ? sql`update usage_end_users set prompt_tokens = ${tokens} where end_user_id = ${end_user_id}`
          : sql`update usage_site_days set prompt_tokens = ${tokens} where day = '1999-12-31'`,
      )
    await record(10)
    await setSum(Number.MAX_SAFE_INTEGER - 5)
    await expect(record(6)).rejects.toMatchObject(refusal('prompt_tokens'))
    await expect(record(5)).resolves.toBe(1)
    await app.service.database.asOrg(demo, async (sql) => {
      const [row] = await sql`select sum(prompt_tokens) from usage_events where end_user_id = ${end_user_id}`
      expect(row).toEqual({ sum: 15 })
      await sql`delete from usage_events where created_at = ${created_at}`
      await sql`delete from usage_site_days where day = '1999-12-31'`
      await sql`delete from usage_model_days where day = '1999-12-31'`
      await sql`delete from usage_end_user_spans where end_user_id = ${end_user_id}`
      await sql`delete from usage_end_users where end_user_id = ${end_user_id}`
    })
  })

  test('does not deadlock and keeps totals exact with eight writers of the same end users, days and events', async () => {
    const endUsers = await Promise.all(Array.from({ length: 5 }, () => addEndUser(app, demo)))
    const sites = [null, await addSite(app, demo), await addSite(app, demo)]
    const pool = Array.from({ length: 2_000 }, (_, n) =>
      usageRecord(demo, {
        end_user_id: [null, ...endUsers][n % 6] as string | null,
        site_id: sites[n % 3] as string | null,
        prompt_tokens: n,
        cost_micro_usd: n % 7 === 0 ? null : n,
        model: `model-${n % 3}`,
        created_at: `2026-04-0${1 + (n % 4)}T00:00:00.000Z`,
      }),
    )
    const before = await countEvents()
    const writer = async (seed: number) => {
      let added = 0
      for (let batch = 0; batch < 20; batch += 1) {
        // Writers use overlapping events and keys, each in a different order.
        const events = Array.from({ length: 50 }, (_, n) => pool[(seed * 977 + batch * 331 + n * 89) % pool.length])
        added += await recordUsage(app.service, events as UsageRecord[])
      }
      return added
    }
    const added = await Promise.all(Array.from({ length: 8 }, (_, seed) => writer(seed)))
    expect((await countEvents()) - before).toBe(added.reduce((total, count) => total + count))
    expect(await findWrongSums(app, demo)).toEqual([])
  })

  test('leaves no trace of an end user who is erased at the same time, and does not deadlock', async () => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    for (let round = 0; round < 10; round += 1) {
      const end_user_id = await addEndUser(app, demo)
      const before = await countEvents()
      await recordUsage(app.service, usageRecord(demo, { end_user_id }))
      const writers = Array.from({ length: 6 }, () =>
        recordUsage(
          app.service,
          Array.from({ length: 20 }, () => usageRecord(demo, { end_user_id })),
        ).catch((error) => {
          expect(error).toMatchObject(refusal('end_user_id'))
          return 0
        }),
      )
      const erased = await app.request('DELETE', `/end-users/${end_user_id}`, { token })
      expect(erased.status).toBe(200)
      const added = (await Promise.all(writers)).reduce((total, count) => total + count)
      expect(await countEvents(), 'the organization’s events stay').toBe(before + 1 + added)
      const left = await app.service.database.asOrg(
        demo,
        (sql) => sql`
          select from usage_events where end_user_id = ${end_user_id}
          union all select from usage_end_user_spans where end_user_id = ${end_user_id}
          union all select from usage_end_users where end_user_id = ${end_user_id}`,
      )
      expect(left).toEqual([])
    }
    expect(await findWrongSums(app, demo)).toEqual([])
  })
})

describe('addUsage', () => {
  test('adds events in the caller’s transaction, once', async () => {
    const end_user_id = await addEndUser(app, demo)
    const events = [usageRecord(demo, { end_user_id }), usageRecord(demo, { end_user_id })]
    const abandoned = app.service.database.asOrg(demo, async (sql) => {
      expect(await addUsage(sql, events)).toBe(2)
      throw new Error('changed my mind')
    })
    await expect(abandoned).rejects.toThrow('changed my mind')
    expect(await sumsOf(end_user_id)).toBeUndefined()

    const added = await app.service.database.asOrg(demo, async (sql) => [
      await addUsage(sql, events),
      await addUsage(sql, events),
      await addUsage(sql, []),
    ])
    expect(added).toEqual([2, 0, 0])
    expect(await sumsOf(end_user_id)).toMatchObject({ requests: 2 })
    expect(await findWrongSums(app, demo)).toEqual([])
  })

  test.each<[string, string, Partial<UsageRecord>]>([
    ['an invalid event', 'prompt_tokens', { prompt_tokens: -1 }],
    ['an unknown end user', 'end_user_id', { end_user_id: newId() }],
  ])('rejects %s', async (_, field, changes) => {
    const adding = app.service.database.asOrg(demo, (sql) => addUsage(sql, [usageRecord(demo, changes)]))
    await expect(adding).rejects.toMatchObject(refusal(field))
  })
})
