import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { addEndUser } from '../../../test/usage-records.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Limits, Share } from './limits.ts'
import { resetOf, startOf } from './periods.ts'
import {
  type Amount,
  BudgetNeedsPrice,
  BudgetReached,
  reserveBudget,
  type Settlement,
  type Spender,
  settleBudget,
} from './reservations.ts'

let app: TestService
let demo = ''
let token = ''
/** Each test has an end user of its own, and the organization starts without budgets and counters. */
let ann: Spender = { endUserId: null }
const anonymous: Spender = { endUserId: null }

beforeAll(async () => {
  app = await startTestService()
  demo = await app.organization('demo')
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())
beforeEach(async () => {
  await app.service.database.asOrg(demo, async (sql) => {
    await sql`delete from budgets`
    await sql`delete from budget_periods`
  })
  ann = { endUserId: await addEndUser(app, demo) }
})

type Budgets = Partial<Record<'organization' | 'end_user_default' | 'anonymous', Partial<Limits>>> & {
  anonymous_shares?: Record<`day_tokens_per_${Share}`, number | null>
}
const setBudgets = async (budgets: Budgets) =>
  expect((await app.request('PATCH', '/budgets', { token, body: budgets })).status).toBe(200)

const noon = new Date('2026-03-15T12:00:00.000Z')
const amount = (tokens: number, cost_micro_usd: number | null = 0): Amount => ({ tokens, cost_micro_usd })

const reserve = (spender: Spender, wanted: Amount, at = noon) =>
  app.service.database.asOrg(demo, (sql) => reserveBudget(sql, spender, wanted, at))
const settle = (spender: Spender, settlement: Settlement) =>
  app.service.database.asOrg(demo, (sql) => settleBudget(sql, spender, settlement))
/** Reserves and uses the same amount. */
const use = async (spender: Spender, used: Amount, at = noon) => {
  await reserve(spender, used, at)
  return settle(spender, { reserved: used, used, at })
}

/** `scope period start: used + reserved` of every counter that isn't empty. */
async function readCounters(unit: 'tokens' | 'cost_micro_usd' = 'tokens'): Promise<string[]> {
  const rows = await app.service.database.asOrg(
    demo,
    (sql) => sql<Record<string, number>>`
      select scope, period, starts_on, tokens, reserved_tokens, cost_micro_usd, reserved_cost_micro_usd
      from budget_periods order by scope, period, starts_on`,
  )
  return rows
    .filter((row) => row[unit] || row[`reserved_${unit}`])
    .map((row) => `${row.scope} ${row.period} ${row.starts_on}: ${row[unit]} + ${row[`reserved_${unit}`]}`)
}

describe('a reservation', () => {
  test('without any budget is counted for the end user and the organization', async () => {
    await reserve(ann, amount(100, 7))
    await reserve(anonymous, amount(10, null))
    expect(await readCounters()).toEqual([
      'anonymous day 2026-03-15: 0 + 10',
      'anonymous month 2026-03-01: 0 + 10',
      'end_user day 2026-03-15: 0 + 100',
      'end_user month 2026-03-01: 0 + 100',
      'organization day 2026-03-15: 0 + 110',
      'organization month 2026-03-01: 0 + 110',
    ])
    expect(await readCounters('cost_micro_usd')).toEqual([
      'end_user day 2026-03-15: 0 + 7',
      'end_user month 2026-03-01: 0 + 7',
      'organization day 2026-03-15: 0 + 7',
      'organization month 2026-03-01: 0 + 7',
    ])
  })

  const tomorrow = '2026-03-16T00:00:00.000Z'
  const nextMonth = '2026-04-01T00:00:00.000Z'
  const user = "You've reached your limit"
  const assistant = 'The assistant has reached its limit'
  const visitors = "Visitors who aren't signed in have reached their limit"
  const today = 'for today. It resets on 16 March 2026 at 00:00 UTC.'
  const thisMonth = 'for this month. It resets on 1 April 2026 at 00:00 UTC.'

  test.each<[string, Budgets, Partial<BudgetReached>]>([
    [
      'the end user’s tokens per day',
      { end_user_default: { day_tokens: 109 } },
      { scope: 'end_user', unit: 'tokens', period: 'day', resets_at: tomorrow, message: `${user} ${today}` },
    ],
    [
      'the end user’s tokens per month',
      { end_user_default: { month_tokens: 109 } },
      { scope: 'end_user', unit: 'tokens', period: 'month', resets_at: nextMonth, message: `${user} ${thisMonth}` },
    ],
    [
      'the end user’s money per day',
      { end_user_default: { day_cost_micro_usd: 219 } },
      { scope: 'end_user', unit: 'cost_micro_usd', period: 'day', resets_at: tomorrow, message: `${user} ${today}` },
    ],
    [
      'the end user’s money per month',
      { end_user_default: { month_cost_micro_usd: 219 } },
      { scope: 'end_user', unit: 'cost_micro_usd', period: 'month', message: `${user} ${thisMonth}` },
    ],
    [
      'the organization’s tokens per day',
      { organization: { day_tokens: 109 } },
      { scope: 'organization', unit: 'tokens', period: 'day', message: `${assistant} ${today}` },
    ],
    [
      'the organization’s money per month',
      { organization: { month_cost_micro_usd: 219 } },
      { scope: 'organization', unit: 'cost_micro_usd', period: 'month', message: `${assistant} ${thisMonth}` },
    ],
    [
      'several limits, where the last to reset counts',
      { organization: { month_tokens: 109, day_tokens: 105 }, end_user_default: { day_tokens: 105 } },
      { scope: 'organization', period: 'month', message: `${assistant} ${thisMonth}` },
    ],
    [
      'both limits of a day, where the end user’s comes first',
      { organization: { day_tokens: 105 }, end_user_default: { day_tokens: 105 } },
      { scope: 'end_user', period: 'day', message: `${user} ${today}` },
    ],
  ])('is refused above %s, and leaves nothing behind', async (_, budgets, refusal) => {
    await setBudgets(budgets)
    await reserve(ann, amount(50, 100))
    await use(ann, amount(50, 100))
    const before = [await readCounters(), await readCounters('cost_micro_usd')]
    // A caller may catch the refusal and commit.
    const error = await app.service.database.asOrg(demo, (sql) =>
      reserveBudget(sql, ann, amount(10, 20), noon).catch((refused) => refused),
    )
    expect(error).toBeInstanceOf(BudgetReached)
    expect(error).toMatchObject(refusal)
    expect([await readCounters(), await readCounters('cost_micro_usd')]).toEqual(before)
  })

  test('of an anonymous visitor counts against the limits of all visitors and of the organization', async () => {
    await setBudgets({
      anonymous: { day_tokens: 100 },
      end_user_default: { day_tokens: 1 },
      organization: { day_tokens: 150 },
    })
    await reserve(anonymous, amount(90))
    await expect(reserve(anonymous, amount(11))).rejects.toMatchObject({
      scope: 'anonymous',
      message: `${visitors} ${today}`,
    })
    await setBudgets({ end_user_default: { day_tokens: null } })
    await expect(reserve(ann, amount(61))).rejects.toMatchObject({ scope: 'organization' })
    await reserve(ann, amount(60))
    await expect(reserve(anonymous, amount(1))).rejects.toMatchObject({ scope: 'organization' })
  })

  test('that fits exactly passes', async () => {
    await setBudgets({ end_user_default: { day_tokens: 100, month_cost_micro_usd: 30 } })
    await reserve(ann, amount(60, 10))
    await reserve(ann, amount(40, 20))
    await expect(reserve(ann, amount(1, 0))).rejects.toMatchObject({ unit: 'tokens' })
    await expect(reserve(ann, amount(0, 1))).rejects.toMatchObject({ unit: 'cost_micro_usd' })
    await reserve(ann, amount(0, 0))
  })

  test('that is larger than a whole budget says that waiting does not help', async () => {
    await setBudgets({ end_user_default: { day_tokens: 100 } })
    await expect(reserve(ann, amount(101))).rejects.toThrow(
      'A reply in this conversation could use more than the limit for a whole day. Start a new conversation, or ask an administrator to raise the limit.',
    )
  })

  test('follows an end user’s own limits, field by field', async () => {
    await setBudgets({ end_user_default: { day_tokens: 100, month_tokens: 500 } })
    const path = `/end-users/${ann.endUserId}/budget`
    await app.request('PATCH', path, { token, body: { day_tokens: 400 } })
    await reserve(ann, amount(400))
    await expect(reserve(ann, amount(1))).rejects.toMatchObject({ period: 'day' })
    await app.request('PATCH', path, { token, body: { day_tokens: 1000 } })
    await expect(reserve(ann, amount(101))).rejects.toMatchObject({ period: 'month' })
    await expect(reserve({ endUserId: await addEndUser(app, demo) }, amount(101))).rejects.toThrow('whole day')
  })

  test.each<[string, Budgets]>([
    ['the end user’s day', { end_user_default: { day_cost_micro_usd: 1_000_000 } }],
    ['the end user’s month', { end_user_default: { month_cost_micro_usd: 1_000_000 } }],
    ['the organization’s day', { organization: { day_cost_micro_usd: 1_000_000 } }],
    ['the organization’s month', { organization: { month_cost_micro_usd: 1_000_000 } }],
  ])('without a price is refused if a budget in money applies to %s', async (_, budgets) => {
    await setBudgets(budgets)
    const error = await reserve(ann, amount(1, null)).catch((refused) => refused)
    expect(error).toBeInstanceOf(BudgetNeedsPrice)
    expect(error.message).toContain('INLAY_MODEL_PRICES')
    expect(await readCounters()).toEqual([])
    await reserve(ann, amount(1, 0))
  })

  test('without a price passes if the budget in money is for others', async () => {
    await setBudgets({ anonymous: { day_cost_micro_usd: 1 }, end_user_default: { day_tokens: 10 } })
    await reserve(ann, amount(1, null))
    await expect(reserve(anonymous, amount(1, null))).rejects.toBeInstanceOf(BudgetNeedsPrice)
  })

  test('of an end user who was erased fails', async () => {
    const gone = newId()
    await expect(reserve({ endUserId: gone }, amount(1))).rejects.toMatchObject({
      envelope: { status: 404, data: { resource: 'end_user', resourceId: gone } },
    })
    expect(await readCounters()).toEqual([])
  })

  test('of one organization does not count for another', async () => {
    await setBudgets({ anonymous: { day_tokens: 10 } })
    const other = await app.organization('other')
    await app.service.database.asOrg(other, (sql) => reserveBudget(sql, anonymous, amount(1000), noon))
    await reserve(anonymous, amount(10))
  })
})

describe('concurrent reservations', () => {
  test('at the edge of a budget: exactly one of two passes, and the other waits for it', async () => {
    const bob = { endUserId: await addEndUser(app, demo) }
    await setBudgets({ organization: { month_tokens: 150 } })
    const { database } = app.service
    const waiting = async () => {
      const [row] = await database.asOrg(
        demo,
        (sql) => sql<{ count: number }>`
          select count(*) from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and query like '%insert into budget_periods%'`,
      )
      return row?.count
    }
    let second: Promise<unknown> = Promise.resolve()
    const first = database.asOrg(demo, async (sql) => {
      await reserveBudget(sql, ann, amount(100), noon)
      second = reserve(bob, amount(100)).catch((error) => error)
      await vi.waitFor(async () => expect(await waiting()).toBe(1))
    })
    await expect(first).resolves.toBeUndefined()
    expect(await second).toBeInstanceOf(BudgetReached)
    expect(await readCounters()).toEqual([
      'end_user day 2026-03-15: 0 + 100',
      'end_user month 2026-03-01: 0 + 100',
      'organization day 2026-03-15: 0 + 100',
      'organization month 2026-03-01: 0 + 100',
    ])
  })

  test('pass if the one that was first is rolled back', async () => {
    await setBudgets({ organization: { month_tokens: 150 } })
    const { database } = app.service
    let second: Promise<unknown> = Promise.resolve()
    const first = database.asOrg(demo, async (sql) => {
      await reserveBudget(sql, ann, amount(100), noon)
      second = reserve(anonymous, amount(100))
      throw new Error('died')
    })
    await expect(first).rejects.toThrow('died')
    await expect(second).resolves.toBeUndefined()
  })

  test('of a hundred anonymous visitors never exceed the cap', async () => {
    await setBudgets({ anonymous: { day_tokens: 1000 } })
    const outcomes = await Promise.allSettled(Array.from({ length: 100 }, () => use(anonymous, amount(70, 5))))
    const passed = outcomes.filter(({ status }) => status === 'fulfilled').length
    // While calls run, their reservations count too, so all that fit pass.
    expect(passed).toBe(14)
    expect(await readCounters()).toEqual([
      'anonymous day 2026-03-15: 980 + 0',
      'anonymous month 2026-03-01: 980 + 0',
      'organization day 2026-03-15: 980 + 0',
      'organization month 2026-03-01: 980 + 0',
    ])
  })

  test('and settlements of many end users neither deadlock nor lose anything', async () => {
    const people = await Promise.all(Array.from({ length: 5 }, () => addEndUser(app, demo)))
    const spenders: Spender[] = [anonymous, ...people.map((endUserId) => ({ endUserId }))]
    await setBudgets({ organization: { day_tokens: 1_000_000 } })
    const work = async (n: number) => {
      const spender = spenders[n % spenders.length] as Spender
      await reserve(spender, amount(100, 50))
      await settle(spender, { reserved: amount(100, 50), used: amount(n, 2 * n), at: noon })
    }
    await Promise.all(Array.from({ length: 120 }, (_, n) => work(n)))
    const total = (120 * 119) / 2
    expect((await readCounters()).filter((line) => line.startsWith('organization'))).toEqual([
      `organization day 2026-03-15: ${total} + 0`,
      `organization month 2026-03-01: ${total} + 0`,
    ])
    expect((await readCounters('cost_micro_usd')).at(-1)).toBe(`organization month 2026-03-01: ${2 * total} + 0`)
  })
})

test('reservations of an end user who is erased at the same time leave nothing behind, and do not deadlock', async () => {
  for (let round = 0; round < 10; round += 1) {
    const spender = { endUserId: await addEndUser(app, demo) }
    // Its month is counted already, and the next day isn't.
    await use(spender, amount(1))
    const nextDay = new Date('2026-03-16T12:00:00.000Z')
    const reserving = Array.from({ length: 4 }, () => reserve(spender, amount(1), nextDay).catch((error) => error))
    const erased = await app.request('DELETE', `/end-users/${spender.endUserId}`, { token })
    expect(erased.status).toBe(200)
    for (const outcome of await Promise.all(reserving)) {
      if (outcome !== undefined) expect(outcome).toMatchObject({ envelope: { status: 404 } })
    }
    const left = await app.service.database.asOrg(
      demo,
      (sql) => sql`select from budget_periods where subject = ${spender.endUserId}`,
    )
    expect(left).toEqual([])
  }
})

describe('a budget resets', () => {
  test.each([
    ['a day', { day_tokens: 100 }, '2026-03-15T23:59:59.999Z', '2026-03-16T00:00:00.000Z'],
    ['a day at a month’s end', { day_tokens: 100 }, '2026-02-28T23:59:59.999Z', '2026-03-01T00:00:00.000Z'],
    ['a month', { month_tokens: 100 }, '2026-03-31T23:59:59.999Z', '2026-04-01T00:00:00.000Z'],
    ['February in a leap year', { month_tokens: 100 }, '2028-02-29T23:59:59.999Z', '2028-03-01T00:00:00.000Z'],
    ['a year', { month_tokens: 100 }, '2026-12-31T23:59:59.999Z', '2027-01-01T00:00:00.000Z'],
  ])('at the end of %s, not before', async (_, limits, last, first) => {
    await setBudgets({ end_user_default: limits })
    const [before, after] = [new Date(last), new Date(first)]
    await use(ann, amount(100), before)
    await expect(reserve(ann, amount(1), before)).rejects.toMatchObject({ resets_at: first })
    await reserve(ann, amount(100), after)
    await expect(reserve(ann, amount(1), after)).rejects.toBeInstanceOf(BudgetReached)
  })

  test('a month’s budget does not reset with the day', async () => {
    await setBudgets({ end_user_default: { month_tokens: 100 } })
    await use(ann, amount(100), new Date('2026-03-01T00:00:00.000Z'))
    await expect(reserve(ann, amount(1), new Date('2026-03-31T23:59:59.999Z'))).rejects.toMatchObject({
      resets_at: '2026-04-01T00:00:00.000Z',
    })
  })

  test('at the first moment that is in another period, whatever the moment', () => {
    fc.assert(
      fc.property(
        fc.date({ min: new Date('1970-01-01'), max: new Date('9998-12-31'), noInvalidDate: true }),
        fc.constantFrom('day' as const, 'month' as const),
        (moment, period) => {
          const reset = new Date(resetOf(period, moment))
          expect(reset > moment).toBe(true)
          expect(startOf(period, reset)).toBe(reset.toISOString().slice(0, 10))
          expect(startOf(period, new Date(reset.getTime() - 1))).toBe(startOf(period, moment))
        },
      ),
    )
  })
})

describe('settling', () => {
  test.each([
    ['less than reserved', 40, 8],
    ['as much as reserved', 100, 20],
    ['more than reserved', 130, 26],
    ['nothing', 0, 0],
  ])('%s replaces the reservation with it', async (_, tokens, cost) => {
    await reserve(ann, amount(100, 20))
    await reserve(ann, amount(7, 1))
    await settle(ann, { reserved: amount(100, 20), used: amount(tokens, cost), at: noon })
    expect(await readCounters()).toEqual([
      `end_user day 2026-03-15: ${tokens} + 7`,
      `end_user month 2026-03-01: ${tokens} + 7`,
      `organization day 2026-03-15: ${tokens} + 7`,
      `organization month 2026-03-01: ${tokens} + 7`,
    ])
    expect(await readCounters('cost_micro_usd')).toContain(`end_user day 2026-03-15: ${cost} + 1`)
  })

  test('frees what was not used', async () => {
    await setBudgets({ end_user_default: { day_tokens: 100 } })
    await reserve(ann, amount(100))
    await expect(reserve(ann, amount(1))).rejects.toBeInstanceOf(BudgetReached)
    await settle(ann, { reserved: amount(100), used: amount(40), at: noon })
    await reserve(ann, amount(60))
  })

  test('later, after the node that reserved it was killed, releases the reservation', async () => {
    await setBudgets({ end_user_default: { day_tokens: 100 } })
    await reserve(ann, amount(80))
    await expect(reserve(ann, amount(80))).rejects.toBeInstanceOf(BudgetReached)
    // Another node takes over, settles the interrupted call and repeats it.
    await app.service.database.asOrg(demo, async (sql) => {
      await settleBudget(sql, ann, { reserved: amount(80), used: amount(20), at: noon })
      await reserveBudget(sql, ann, amount(80), noon)
    })
    expect(await readCounters()).toContain('end_user day 2026-03-15: 20 + 80')
  })

  test('counts in the day and the month in which it was reserved', async () => {
    await setBudgets({ end_user_default: { month_tokens: 100 } })
    const at = new Date('2026-03-31T23:59:59.000Z')
    const later = new Date('2026-04-01T00:00:10.000Z')
    await reserve(ann, amount(100), at)
    await reserve(ann, amount(30), later)
    await settle(ann, { reserved: amount(100), used: amount(90), at })
    expect((await readCounters()).filter((line) => line.startsWith('end_user'))).toEqual([
      'end_user day 2026-03-31: 90 + 0',
      'end_user day 2026-04-01: 0 + 30',
      'end_user month 2026-03-01: 90 + 0',
      'end_user month 2026-04-01: 0 + 30',
    ])
    await reserve(ann, amount(70), later)
  })

  test('more than was reserved never makes a counter negative', async () => {
    await reserve(ann, amount(10, 1))
    await settle(ann, { reserved: amount(500, 500), used: amount(1, 1), at: noon })
    await settle(ann, { reserved: amount(500, 500), used: amount(1, 1), at: noon })
    expect(await readCounters()).toContain('end_user day 2026-03-15: 2 + 0')
    expect(await readCounters('cost_micro_usd')).toContain('end_user day 2026-03-15: 2 + 0')
  })

  test('a call without a price counts its tokens', async () => {
    await reserve(ann, amount(10, null))
    await settle(ann, { reserved: amount(10, null), used: amount(9, null), at: noon })
    expect(await readCounters()).toContain('end_user day 2026-03-15: 9 + 0')
    expect(await readCounters('cost_micro_usd')).toEqual([])
  })

  test('a call of an end user who was erased in the meantime still counts for the organization', async () => {
    await reserve(ann, amount(100))
    expect((await app.request('DELETE', `/end-users/${ann.endUserId}`, { token })).status).toBe(200)
    await settle(ann, { reserved: amount(100), used: amount(40), at: noon })
    expect(await readCounters()).toEqual([
      'organization day 2026-03-15: 40 + 0',
      'organization month 2026-03-01: 40 + 0',
    ])
  })
})

describe('a warning', () => {
  const warningsSince = async (before: number) => {
    const { events } = (await app.request('GET', '/audit-events?action=budget.nearly_reached&limit=100', { token }))
      .body
    return events.filter(({ sequence }: { sequence: number }) => sequence > before)
  }
  const lastSequence = async () =>
    (await app.request('GET', '/audit-events?limit=1', { token })).body.events[0].sequence as number

  test('is recorded once in a period, when 80 % are used', async () => {
    await setBudgets({ end_user_default: { day_tokens: 100 }, organization: { month_cost_micro_usd: 1000 } })
    const before = await lastSequence()
    expect(await use(ann, amount(79, 10))).toEqual({ warnings: [] })
    const warning = { scope: 'end_user', period: 'day', unit: 'tokens', limit: 100, used: 80 }
    expect(await use(ann, amount(1, 10))).toEqual({ warnings: [warning] })
    expect(await use(ann, amount(5, 10))).toEqual({ warnings: [] })
    const expensive = { scope: 'organization', period: 'month', unit: 'cost_micro_usd', limit: 1000, used: 830 }
    expect(await use(ann, amount(1, 800))).toEqual({ warnings: [expensive] })

    const nextDay = new Date('2026-03-16T00:00:00.000Z')
    expect((await use(ann, amount(90), nextDay)).warnings).toMatchObject([{ scope: 'end_user', used: 90 }])
    const events = await warningsSince(before)
    expect(events.map(({ actor, target, data }: Record<string, unknown>) => ({ actor, target, data }))).toEqual(
      expect.arrayContaining([
        { actor: 'agent', target: ann.endUserId, data: { ...warning, starts_on: '2026-03-15' } },
        { actor: 'agent', target: demo, data: { ...expensive, starts_on: '2026-03-01' } },
        { actor: 'agent', target: ann.endUserId, data: { ...warning, used: 90, starts_on: '2026-03-16' } },
      ]),
    )
    expect(events).toHaveLength(3)
  })

  test('is not recorded for reservations, or without a limit', async () => {
    await setBudgets({ end_user_default: { day_tokens: 100 }, anonymous: { day_tokens: null } })
    const before = await lastSequence()
    await reserve(ann, amount(100))
    expect(await settle(ann, { reserved: amount(100), used: amount(10), at: noon })).toEqual({ warnings: [] })
    expect(await use(anonymous, amount(1_000_000, 1_000_000))).toEqual({ warnings: [] })
    expect(await warningsSince(before)).toEqual([])
  })

  test('is recorded once by concurrent calls', async () => {
    await setBudgets({ anonymous: { day_tokens: 1000 } })
    const before = await lastSequence()
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => use(anonymous, amount(100))))
    expect(outcomes.flatMap(({ warnings }) => warnings)).toHaveLength(1)
    expect(await warningsSince(before)).toHaveLength(1)
  })
})

describe('a share of the anonymous visitors’ budget', () => {
  const none = { day_tokens_per_address: null, day_tokens_per_visitor: null, day_tokens_per_key: null }
  const mine = { address: newId(), visitor: newId(), key: newId() }
  const reached = 'have reached their limit for today. It resets on 16 March 2026 at 00:00 UTC.'

  test.each<[Share, string]>([
    ['address', `Visitors from your network who aren't signed in ${reached}`],
    ['visitor', "You've reached your limit for today. It resets on 16 March 2026 at 00:00 UTC."],
    ['key', `Visitors of this site who aren't signed in ${reached}`],
  ])('is of one %s and one day, and nothing is reserved beyond it', async (share, message) => {
    await setBudgets({ anonymous_shares: { ...none, [`day_tokens_per_${share}`]: 100 } })
    const stranger: Spender = { endUserId: null, shares: mine }
    await use(stranger, amount(90))
    await expect(reserve(stranger, amount(11))).rejects.toMatchObject({ scope: share, period: 'day', message })
    await reserve({ endUserId: null, shares: { ...mine, [share]: newId() } }, amount(11))
    await reserve(stranger, amount(11), new Date('2026-03-16T00:00:00.000Z'))
    expect((await readCounters()).filter((counter) => counter.startsWith(share))).toEqual([
      expect.stringMatching(/day 2026-03-15: (90 \+ 0|0 \+ 11)/),
      expect.stringMatching(/day 2026-03-15: (90 \+ 0|0 \+ 11)/),
      `${share} day 2026-03-16: 0 + 11`,
    ])
  })

  test('cannot be overdrawn by concurrent calls', async () => {
    await setBudgets({ anonymous_shares: { ...none, day_tokens_per_address: 100 } })
    const visitors = Array.from({ length: 8 }, (): Spender => {
      return { endUserId: null, shares: { ...mine, visitor: newId(), key: newId() } }
    })
    const outcomes = await Promise.allSettled(visitors.map((visitor) => reserve(visitor, amount(40))))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
  })

  test('warns no administrator, because strangers can have any number of them', async () => {
    await setBudgets({ anonymous_shares: { ...none, day_tokens_per_address: 100, day_tokens_per_visitor: 100 } })
    expect(await use({ endUserId: null, shares: mine }, amount(100))).toEqual({ warnings: [] })
  })
})
