import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { auditVerification } from './verifier.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
  const organizationId = await app.organization('demo')
  await app.service.database.asOrg(organizationId, async (sql) => {
    for (let n = 1; n <= 120; n += 1) {
      const actor = n % 2 ? 'ann@example.com' : 'bob@example.com'
      await recordAudit(sql, { organizationId, actor }, n % 3 ? 'thing.made' : 'thing.unmade', `thing-${n}`, { n })
    }
  })
})
afterAll(() => app.close())

interface Event {
  id: string
  sequence: number
  actor: string
  action: string
  target: string
}

const list = async (query = '', service = app, as = token) =>
  (await service.request('GET', `/audit-events${query}`, { token: as })).body

/** Lists until the background verification has come to the newest event. */
const listVerified = (query = '', service = app, as = token) =>
  vi.waitFor(
    async () => {
      const body = await list(query, service, as)
      expect(body.verification).toMatchObject({ status: expect.not.stringMatching('unverified'), newer_events: 0 })
      return body
    },
    { timeout: 50_000 },
  )

describe('the list', () => {
  test('returns every field, newest event first, and the state of the chain', async () => {
    const { events, next_cursor, verification } = await listVerified('?target=thing-120')
    expect(events).toEqual([
      {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        sequence: expect.any(Number),
        actor: 'bob@example.com',
        actor_id: null,
        action: 'thing.unmade',
        target: 'thing-120',
        data: { n: 120 },
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    ])
    expect(next_cursor).toBeNull()
    const [{ sequence, hash }] = events
    const head = `${await app.organization('demo')}:${sequence}:${hash}`
    expect(verification).toEqual({
      ...{ status: 'intact', length: sequence, head, broken_at: null, newer_events: 0 },
      verified_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
    const whole = await list()
    expect(whole.events).toHaveLength(50)
    expect(whole.events[0].target).toBe('thing-120')
  })

  test('names users and service accounts by ID too, which stays when an address changes or is shared', async () => {
    const { id } = (await app.request('GET', '/users/me', { token })).body
    const body = { name: 'Deploys', role: 'admin' }
    const account = (await app.request('POST', '/service-accounts', { token, body })).body
    const as = account.key
    const keys = { name: 'Shop', allowed_origins: ['https://shop.example'] }
    await app.request('PATCH', '/tool-calls/settings', { token: as, body: { contents_days: 1 } })
    await app.request('POST', '/publishable-keys', { token, body: keys })
    const actionsOf = async (actorId: string) =>
      (await list(`?actor_id=${actorId}&limit=3`)).events.map(({ action }: Event) => action)
    expect(await actionsOf(account.id)).toEqual(['tool_call_settings.updated'])
    expect(await actionsOf(id)).toEqual(['publishable_key.created', 'service_account.created', 'organization.created'])
    const exported = await app.request('GET', '/audit-events/export', { token })
    expect(exported.body.at(-1)).toMatchObject({ actor: 'admin@demo.test', actor_id: id })
  })

  test.each([1, 7, 50, 100])('in pages of %i returns the whole trail, each event once', async (limit) => {
    const seen: Event[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page: { events: Event[]; next_cursor: string | null } = await list(
        `?limit=${limit}${cursor && `&cursor=${cursor}`}`,
      )
      expect(page.events.length).toBeLessThanOrEqual(limit)
      seen.push(...page.events)
      cursor = page.next_cursor
    }
    const length = seen[0]?.sequence ?? 0
    expect(length).toBeGreaterThan(120)
    expect(seen.map(({ sequence }) => sequence)).toEqual(Array.from({ length }, (_, n) => length - n))
  })

  test.each<[string, (event: Event) => boolean, number]>([
    ['actor=ann@example.com', ({ actor }) => actor === 'ann@example.com', 60],
    ['action=thing.unmade', ({ action }) => action === 'thing.unmade', 40],
    ['target=thing-7', ({ target }) => target === 'thing-7', 1],
    ['actor=ann@example.com&action=thing.unmade', ({ actor }) => actor === 'ann@example.com', 20],
    ['actor=ann', () => false, 0],
    ['action=thing.%25', () => false, 0],
    ['start_date=2020-01-01&end_date=2020-12-31', () => false, 0],
    ['start_date=2020-01-01&action=thing.made', ({ action }) => action === 'thing.made', 80],
    ['end_date=9999-12-31&action=thing.made', ({ action }) => action === 'thing.made', 80],
    ['start_date=9999-12-31T23:59:59Z', () => false, 0],
    ['cursor=1', () => false, 0],
    ['cursor=999999999999999&target=thing-1', ({ target }) => target === 'thing-1', 1],
  ])('filters by %s', async (query, fits, count) => {
    const { events } = await list(`?limit=100&${query}`)
    expect(events.every(fits)).toBe(true)
    expect(events).toHaveLength(count)
  })

  test('includes both ends of a range', async () => {
    const [event] = (await list('?target=thing-7')).events
    const at = event.created_at
    const later = new Date(Date.parse(at) + 1).toISOString()
    const earlier = new Date(Date.parse(at) - 1).toISOString()
    const day = at.slice(0, 10)
    const count = async (query: string) => (await list(`?target=thing-7&${query}`)).events.length
    expect(await count(`start_date=${at}&end_date=${at}`)).toBe(1)
    expect(await count(`start_date=${day}&end_date=${day}`)).toBe(1)
    expect(await count(`start_date=${later}`)).toBe(0)
    expect(await count(`end_date=${earlier}`)).toBe(0)
    expect(await count(`end_date=${at.replace('Z', '%2B00:00')}`)).toBe(1)
  })

  test.each([
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['cursor=', 'cursor'],
    ['cursor=-1', 'cursor'],
    ['cursor=x', 'cursor'],
    ['cursor=1234567890123456', 'cursor'],
    ['actor=', 'actor'],
    [`target=${'x'.repeat(301)}`, 'target'],
    ['start_date=yesterday', 'start_date'],
    ['start_date=2026-02-30', 'start_date'],
    ['start_date=1969-12-31', 'start_date'],
    ['start_date=0000-01-01', 'start_date'],
    ['end_date=9999-12-31T23:59:59-14:00', 'end_date'],
    ['end_date=2026-01-01T00:00:00', 'end_date'],
    ['organization_id=x', 'organization_id'],
  ])('rejects "%s"', async (query, field) => {
    expect((await list(`?${query}`)).data).toMatchObject({ code: 'VALIDATION_ERROR', field })
  })

  test('requires a plan with audit logs, and fails with ACCESS_DENIED because reads never fail with PAYMENT_REQUIRED', async () => {
    const free = await app.tokenFor('admin@other.test', 'other')
    expect(await list('', app, free)).toEqual({
      defined: true,
      code: 'FORBIDDEN',
      status: 403,
      message: 'Access denied',
      data: { code: 'ACCESS_DENIED', reason: 'The Free plan does not include audit logs' },
    })
  })

  test('returns nothing from another organization', async () => {
    const other = await app.organization('other')
    await app.service.database.asOrg(other, async (sql) => {
      await sql`update organizations set plan_id = 'enterprise'`
      for (let n = 0; n < 5; n += 1) await recordAudit(sql, { organizationId: other, actor: 'x' }, 'other.thing', 'y')
    })
    expect((await list('?action=other.thing')).events).toEqual([])
    const own = await listVerified('', app, await app.tokenFor('admin@other.test', 'other'))
    expect(own.verification).toMatchObject({ status: 'intact', length: own.events.length, broken_at: null })
    await app.service.database.asOrg(other, (sql) => sql`update organizations set plan_id = 'free'`)
  })
})

describe('the export', () => {
  const read = async (query = '', as = token) => app.request('GET', `/audit-events/export${query}`, { token: as })

  test('returns every event, oldest first, and can continue after any of them', async () => {
    const { status, headers, body } = await read()
    expect([status, headers.get('content-type')]).toEqual([200, 'application/jsonl; charset=utf-8'])
    expect(headers.get('cache-control')).toBe('no-store')
    const sequences = body.map(({ sequence }: Event) => sequence)
    expect(sequences).toEqual(Array.from({ length: body.length }, (_, index) => index + 1))
    const { events, verification } = await listVerified()
    expect(body.at(-1)).toEqual({ ...events[0], head: verification.head })
    expect((await read(`?from=${body[99].head}`)).body).toEqual(body.slice(100))
    expect((await read(`?from=${verification.head}`)).body, 'no new events').toEqual([])
  })

  test('reads many pages, up to the newest event when it started', async () => {
    const growing = await useTestService()
    const as = await growing.tokenFor('admin@demo.test', 'demo')
    const organizationId = await growing.organization('demo')
    const add = (count: number) =>
      growing.service.database.asOrg(organizationId, async (sql) => {
        for (let n = 0; n < count; n += 1)
          await recordAudit(sql, { organizationId, actor: 'ann' }, 'thing.made', '', {})
      })
    await add(450)
    const { body } = await growing.request('GET', '/audit-events/export', { token: as })
    const { verification } = await listVerified('', growing, as)
    expect(body.at(-1).head).toBe(verification.head)
    expect(body).toHaveLength(verification.length)
  })

  test('rejects a head that the trail doesn’t contain', async () => {
    const { body } = await read()
    const [organizationId, , hash] = body[50].head.split(':')
    const others = (
      await app.request('GET', '/organizations/by-slug/other', {
        token: await app.tokenFor('admin@other.test', 'other'),
      })
    ).body.id
    for (const head of [
      `${organizationId}:52:${hash}`,
      `${organizationId}:51:${'0'.repeat(64)}`,
      `${organizationId}:999999:${hash}`,
      `${organizationId}:0:${hash}`,
      `${others}:51:${hash}`,
    ]) {
      const refused = await read(`?from=${head}`)
      expect([refused.status, refused.body.data]).toEqual([409, { code: 'AUDIT_HEAD_NOT_FOUND' }])
    }
  })

  test.each(['', '5', 'abc:1:abc', 'x 019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001:1:'.padEnd(100, '0')])(
    'rejects "%s", which isn’t a head',
    async (from) => {
      const { body } = await read(`?from=${encodeURIComponent(from)}`)
      expect(body.data).toMatchObject({ code: 'VALIDATION_ERROR', field: 'from' })
    },
  )

  test('requires a plan with audit logs', async () => {
    const { status, body } = await read('', await app.tokenFor('admin@other.test', 'other'))
    expect([status, body.data.code]).toEqual([403, 'ACCESS_DENIED'])
  })
})

describe('the verification', () => {
  /** A service with a verified trail, and a function that tampers with it as the database's owner. */
  async function makeVictim() {
    const app = await useTestService()
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const organizationId = await app.organization('demo')
    const add = (target: string) =>
      app.service.database.asOrg(organizationId, (sql) =>
        recordAudit(sql, { organizationId, actor: 'ann@example.com' }, 'thing.made', target),
      )
    for (let n = 0; n < 5; n += 1) await add(`thing-${n}`)
    const tamper = async (statement: string) => {
      const owner = new pg.Client(app.stores.owner)
      await owner.connect()
      await owner.query('alter table audit_events no force row level security')
      await owner.query('alter table audit_chains no force row level security')
      await owner.query(statement)
      await owner.end()
    }
    const verification = async () => (await list('', app, token)).verification
    const verified = async () => (await listVerified('', app, token)).verification
    return { app, add, tamper, verification, verified, organizationId, length: (await verified()).length as number }
  }

  test('follows the trail as it grows, and says how many events are newer', async () => {
    const { add, verification, verified, length } = await makeVictim()
    await add('one more')
    expect(await verification()).toMatchObject({ status: 'intact', length, newer_events: 1, broken_at: null })
    expect(await verified()).toMatchObject({ status: 'intact', length: length + 1, broken_at: null })
    const [, results] = await Promise.all([
      Promise.all(Array.from({ length: 20 }, (_, n) => add(`more-${n}`))),
      Promise.all(Array.from({ length: 20 }, verification)),
    ])
    expect(results.map(({ status }) => status)).toEqual(results.map(() => 'intact'))
    expect(await verified()).toMatchObject({ status: 'intact', length: length + 21, broken_at: null })
  })

  test.each([
    ['new events were deleted', `delete from audit_events where target = 'cut'`, 1],
    ['all later events were deleted', 'delete from audit_events where sequence >= 3', 1],
    ['an event was added after the head', addRow(100), 2],
    ['an event was added before the first', addRow(0), undefined],
    ['an event with a negative number was added', addRow(-7), undefined],
    ['the head was changed', `update audit_chains set hash = sha256('')`, 1],
    [
      'the chain was cut back',
      'delete from audit_events where sequence > 3; update audit_chains set length = 3',
      undefined,
    ],
  ])('shows immediately that %s', async (_, statement, after) => {
    const { add, tamper, verification, verified, length } = await makeVictim()
    await add('cut')
    await verified()
    await tamper(`alter table audit_events drop constraint audit_events_sequence; ${statement}`)
    const { status, broken_at } = await verification()
    expect(status).toBe('broken')
    if (after !== undefined) expect(broken_at).toBe(length + after)
  })

  test('shows immediately that the last verified event was deleted, also if others are newer', async () => {
    const { app, add, tamper, verification, length } = await makeVictim()
    vi.spyOn(app.service.auditVerifier, 'ask').mockReturnValue()
    await add('newer')
    await tamper(`delete from audit_events where sequence = ${length}`)
    expect(await verification()).toMatchObject({ status: 'broken', broken_at: length, newer_events: 1 })
  })

  test.each([
    ['edited', `update audit_events set actor = 'mallory' where sequence = 3`, 3],
    [
      'replaced by another with the same number',
      `${addRow(3)}; delete from audit_events where sequence = 3 and target <> 'forged'`,
      3,
    ],
    ['added with the same number as another', addRow(3), 3],
    ['deleted', 'delete from audit_events where sequence = 3', 3],
  ])('shows within a minute that an old event was %s', async (_, statement, broken_at) => {
    const { app, tamper, verification, verified } = await makeVictim()
    const { verified_at } = await verified()
    await tamper(`alter table audit_events drop constraint audit_events_pkey; ${statement}`)
    const ask = vi.spyOn(app.service.auditVerifier, 'ask')
    app.clock.now += 59_999
    expect((await verification()).status, 'recently verified events are not read again').toBe('intact')
    expect(ask).not.toHaveBeenCalled()
    app.clock.now += 1
    await vi.waitFor(async () => expect(await verification()).toMatchObject({ status: 'broken', broken_at }))
    expect(Date.parse((await verification()).verified_at)).toBe(Date.parse(verified_at) + 60_000)
  })

  test('is retried after a failure', async () => {
    const { app, add, verification, verified, length } = await makeVictim()
    const { database } = app.service
    const { asOrg } = database
    let failures = 0
    database.asOrg = async (organizationId, work) => {
      const text = String(work)
      if (!text.includes('requireLease')) return asOrg(organizationId, work)
      failures += 1
      throw new Error('gone')
    }
    await add('more')
    await vi.waitFor(async () => {
      expect(await verification()).toMatchObject({ status: 'intact', length, newer_events: 1 })
      expect(failures).toBeGreaterThan(0)
    })
    database.asOrg = asOrg
    expect(await verified()).toMatchObject({ status: 'intact', length: length + 1 })
  })

  test('doesn’t believe a result that someone else has written', async () => {
    const { tamper, organizationId, verification, verified } = await makeVictim()
    const { length } = await verified()
    await tamper(`
      alter table audit_verifications no force row level security;
      update audit_events set actor = 'mallory' where sequence = 3 and organization_id = '${organizationId}';
      update audit_verifications set state = jsonb_set(state, '{wholeAt}', '9999999999999')
      where organization_id = '${organizationId}'`)
    expect(await verification()).toMatchObject({ status: 'unverified', length: 0, newer_events: length })
    await vi.waitFor(async () => expect(await verification()).toMatchObject({ status: 'broken', broken_at: 3 }))
  })

  test('of chains that are due goes on while another organization asks all the time', async () => {
    const { app, organizationId } = await makeVictim()
    const other = await app.organization('other')
    const asking = setInterval(() => app.service.auditVerifier.ask(organizationId), 1)
    onTestFinished(() => clearInterval(asking))
    await app.service.database.asOrg(other, (sql) => requestJob(sql, auditVerification))
    await vi.waitFor(async () => {
      const states = await app.service.database.asOrg(
        other,
        (sql) => sql`select from audit_verifications where state is not null`,
      )
      expect(states).toHaveLength(1)
    })
  })

  test('of 2,500 events isn’t done by a request, but in turns, which any node continues', async () => {
    const { app, organizationId, verification, verified } = await makeVictim()
    await verified()
    // Each reading has asked for a verification, which must not see what comes now.
    await vi.waitFor(async () => {
      const asked = await app.service.database.asOrg(
        organizationId,
        (sql) => sql`
          select from jobs where organization_id = (select current_organization()) and kind = ${auditVerification}
            and (lease is not null or due_at <= now())`,
      )
      expect(asked).toEqual([])
    })
    for (let n = 0; n < 5; n += 1)
      await app.service.database.asOrg(organizationId, async (sql) => {
        const trail = { organizationId, actor: 'ann@example.com' }
        for (let n = 0; n < 500; n += 1) await recordAudit(sql, trail, 'thing.made', 'x')
      })
    const turns = countRows(app)
    const own = app.service.auditVerifier.ask
    app.service.auditVerifier.ask = () => undefined
    expect(await verification(), 'the request verifies nothing').toMatchObject({ newer_events: 2_500 })
    expect(turns).toEqual([])

    app.service.auditVerifier.ask = own
    own(organizationId)
    // After each turn, the verifier pauses for nine times as long.
    await vi.waitFor(() => expect(turns.length).toBeGreaterThanOrEqual(3), 50_000)
    expect(await verified()).toMatchObject({ status: 'intact' })
    expect(Math.max(...turns), 'rows per turn').toBeLessThanOrEqual(1_001)
    const total = turns.reduce((sum, count) => sum + count)
    expect(total, 'no row was read twice, except the last of each turn').toBeLessThan(2_500 + turns.length + 10)
  })
})

/** A statement that adds a forged row to each chain. */
function addRow(sequence: number): string {
  return `
    insert into audit_events (organization_id, sequence, id, actor, action, target, data, created_at, key_id, hash)
    select distinct on (organization_id) organization_id, ${sequence}, gen_random_uuid(), actor, action, 'forged', data,
           created_at, key_id, hash from audit_events where sequence = 3`
}

/** Returns the number of rows of each turn of the verification from now on. */
function countRows(app: TestService): number[] {
  const { database } = app.service
  const { asOrg } = database
  const turns: number[] = []
  database.asOrg = async (organizationId, work) => {
    const result = await asOrg(organizationId, work)
    if (Array.isArray(result) && result[0]?.chain_length !== undefined) turns.push(result.length)
    return result
  }
  return turns
}
