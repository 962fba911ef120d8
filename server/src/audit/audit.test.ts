import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startTestService, type TestService } from '../../test/harness.ts'
import { newId } from '../lib/ids.ts'
import type { Database } from '../stores/database.ts'
import { recordAudit } from './audit.ts'
import { verifyAuditChain } from './verify.ts'

let app: TestService
let database: Database
/** Whoever holds the keys to the database: the one that the chain is there for. */
let owner: pg.Client

beforeAll(async () => {
  app = await startTestService()
  database = app.stores.database
  owner = new pg.Client(app.stores.owner)
  await owner.connect()
  // The walls hold for an owner that is no superuser, until it takes them down.
  await owner.query('alter table audit_events no force row level security')
  await owner.query('alter table audit_chains no force row level security')
})
afterAll(async () => {
  await owner.end()
  await app.close()
})

const record = (organizationId: string, target: string) =>
  database.asOrg(organizationId, (sql) =>
    recordAudit(sql, { organizationId, actor: 'ann@example.com' }, 'thing.done', target, {
      n: 1.5,
      text: 'ü "quoted"',
    }),
  )

/** A new organization with a trail of five rows. */
async function makeTrail(): Promise<string> {
  const id = newId()
  await database.asOrg(id, (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`)
  for (let row = 1; row <= 5; row += 1) await record(id, `target-${row}`)
  return id
}

const createKey = (token: string, name: string) =>
  app.request('POST', '/publishable-keys', { token, body: { name, allowed_origins: ['https://shop.example'] } })

describe('a trail that nobody touched verifies', () => {
  test('without a row', async () => {
    expect(await verifyAuditChain(database, newId())).toEqual({ length: 0, head: expect.stringMatching(/^e3b0c442/) })
  })

  test('row by row, each head another', async () => {
    const id = await makeTrail()
    const first = await verifyAuditChain(database, id)
    expect(first).toEqual({ length: 5, head: expect.stringMatching(/^[0-9a-f]{64}$/) })
    await record(id, 'one more')
    const second = await verifyAuditChain(database, id)
    expect(second).toEqual({ length: 6, head: expect.not.stringMatching(first.head) })
  })

  test('from where an earlier report ended', async () => {
    const id = await makeTrail()
    const noted = await verifyAuditChain(database, id)
    expect(await verifyAuditChain(database, id, noted)).toEqual(noted)
    await record(id, 'one more')
    const whole = await verifyAuditChain(database, id)
    expect(whole.length).toBe(6)
    expect(await verifyAuditChain(database, id, noted)).toEqual(whole)
  })

  test('after forty changes at once in one organization, and forty more in two', async () => {
    const [demo, other] = await Promise.all([app.organization('demo'), app.organization('other')])
    const [admin, otherAdmin] = await Promise.all([
      app.tokenFor('admin@demo.test', 'demo'),
      app.tokenFor('admin@other.test', 'other'),
    ])
    const lengths = async () =>
      (await Promise.all([demo, other].map((id) => verifyAuditChain(database, id)))).map(({ length, broken }) => ({
        length,
        broken,
      }))
    const [before, otherBefore] = (await lengths()).map(({ length }) => length) as [number, number]

    const one = await Promise.all(Array.from({ length: 40 }, (_, i) => createKey(admin, `one ${i}`)))
    const two = await Promise.all(
      Array.from({ length: 40 }, (_, i) => createKey(i % 2 ? admin : otherAdmin, `two ${i}`)),
    )
    expect([...one, ...two].map(({ status }) => status)).toEqual(Array(80).fill(200))
    expect(await lengths()).toEqual([
      { length: before + 60, broken: undefined },
      { length: otherBefore + 20, broken: undefined },
    ])
  })

  test('while another change is written', async () => {
    const id = await makeTrail()
    let changes = 0
    const busy: Database = {
      ...database,
      async asOrg(organizationId, work) {
        const answer = await database.asOrg(organizationId, work)
        changes += 1
        if (changes === 1) await record(id, 'in between')
        return answer
      },
    }
    expect(await verifyAuditChain(busy, id)).not.toHaveProperty('broken')
  })

  test('whatever order a change and its rollback come in', async () => {
    const id = await makeTrail()
    const undone = database.asOrg(id, async (sql) => {
      await recordAudit(sql, { organizationId: id, actor: 'ann@example.com' }, 'thing.undone', 'x')
      throw new Error('stop')
    })
    await Promise.allSettled([undone, ...Array.from({ length: 10 }, (_, i) => record(id, `after ${i}`))])
    expect(await verifyAuditChain(database, id)).toEqual({ length: 15, head: expect.anything() })
  })
})

describe('a row is named', () => {
  const edits: Record<string, string> = {
    organization_id: '$2',
    sequence: 'sequence + 100',
    id: 'gen_random_uuid()',
    actor: `'mallory@example.com'`,
    action: `'nothing.done'`,
    target: `'another'`,
    data: `data || '{"n": 2}'`,
    created_at: `created_at + interval '1 ms'`,
    hash: `sha256('forged')`,
  }

  test.each(Object.entries(edits))('when its %s is edited', async (column, value) => {
    const [id, elsewhere] = await Promise.all([makeTrail(), emptyOrganization()])
    // $2 takes part whether or not the edit needs it.
    await owner.query(
      `update audit_events set ${column} = ${value} where organization_id = $1 and sequence = 3 and $2::uuid is not null`,
      [id, elsewhere],
    )
    expect(await verifyAuditChain(database, id)).toMatchObject({ broken: { sequence: 3 } })
  })

  test('for every column that there is', async () => {
    const { rows } = await owner.query(
      `select attname from pg_attribute where attrelid = 'audit_events'::regclass and attnum > 0 and not attisdropped`,
    )
    expect(rows.map(({ attname }) => attname).toSorted()).toEqual(Object.keys(edits).toSorted())
  })

  const swap = (first: string, second: string) => `
    update audit_events set sequence = sequence + 100 where organization_id = $1 and sequence in (2, 3);
    update audit_events set sequence = case sequence when 102 then ${first} else ${second} end
    where organization_id = $1 and sequence > 100`
  test.each<[string, string, number, string]>([
    ['it is deleted', 'delete from audit_events where organization_id = $1 and sequence = 3', 3, 'is missing'],
    [
      'it was the first and is deleted',
      'delete from audit_events where organization_id = $1 and sequence = 1',
      1,
      'is missing',
    ],
    ['it is swapped with another', swap('3', '2'), 2, 'was changed'],
    [
      'it is the first of a tail that was cut',
      'delete from audit_events where organization_id = $1 and sequence > 3',
      4,
      'up to 5',
    ],
    ['all are gone', 'delete from audit_events where organization_id = $1', 1, 'up to 5'],
    ['the length of the head is raised', 'update audit_chains set length = 6 where organization_id = $1', 6, 'up to 6'],
    [
      'the length of the head is lowered',
      'update audit_chains set length = 4 where organization_id = $1',
      5,
      'the head',
    ],
    [
      'the hash of the head is edited',
      `update audit_chains set hash = sha256('') where organization_id = $1`,
      5,
      'the head',
    ],
    ['the head is gone', 'delete from audit_chains where organization_id = $1', 5, 'the head'],
    [
      'it was edited and its own hash made to fit',
      `update audit_events e set actor = 'mallory', hash = audit_hash(
         (select hash from audit_events where organization_id = $1 and sequence = 2),
         jsonb_populate_record(e, '{"actor": "mallory"}'))
       where organization_id = $1 and sequence = 3`,
      4,
      'the row before it',
    ],
    [
      'it was forged behind the head',
      `insert into audit_events (organization_id, sequence, id, actor, action, target, data, hash)
       values ($1, 6, gen_random_uuid(), 'mallory', 'thing.done', 'x', '{}', sha256('forged'))`,
      6,
      'was changed',
    ],
  ])('when %s', async (_, tamper, sequence, problem) => {
    const id = await makeTrail()
    await owner.query('alter table audit_events disable trigger chain')
    onTestFinished(async () => void (await owner.query('alter table audit_events enable trigger chain')))
    // Several statements at once take no parameters.
    await owner.query(tamper.replaceAll('$1', pg.escapeLiteral(id)))
    expect(await verifyAuditChain(database, id)).toMatchObject({
      broken: { sequence, problem: expect.stringContaining(problem) },
    })
  })

  test('by a head that was noted down, when the whole tail was rewritten to fit', async () => {
    const id = await makeTrail()
    const noted = await verifyAuditChain(database, id)
    await owner.query('delete from audit_events where organization_id = $1 and sequence = 5', [id])
    await owner.query(
      `update audit_chains set length = 4, hash = (select hash from audit_events e where e.organization_id = $1 and sequence = 4)
       where organization_id = $1`,
      [id],
    )
    await record(id, 'something else')
    const rewritten = await verifyAuditChain(database, id)
    expect(rewritten).toEqual({ length: noted.length, head: expect.not.stringMatching(noted.head) })
    expect(await verifyAuditChain(database, id, noted)).toMatchObject({ broken: { sequence: 5 } })
    await record(id, 'and more')
    expect(await verifyAuditChain(database, id, noted)).toMatchObject({ broken: { sequence: 6 } })
  })

  async function emptyOrganization(): Promise<string> {
    const id = newId()
    await database.asOrg(id, (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Empty', ${id})`)
    return id
  }
})

describe('without its row a change does not happen', () => {
  test('when the row cannot be written', async () => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const demo = await app.organization('demo')
    const kept = (await createKey(token, 'kept')).body
    const state = async () => ({
      keys: (await app.request('GET', '/publishable-keys', { token })).body,
      trail: await verifyAuditChain(database, demo),
    })
    const before = await state()
    const group = pg.escapeIdentifier(`${app.stores.owner.database}_service`)
    await owner.query(`revoke insert on audit_events from ${group}`)
    onTestFinished(async () => void (await owner.query(`grant insert on audit_events to ${group}`)))

    const answers = await Promise.all([
      createKey(token, 'lost'),
      app.request('PATCH', `/publishable-keys/${kept.id}`, { token, body: { name: 'renamed' } }),
      app.request('DELETE', `/publishable-keys/${kept.id}`, { token }),
      app.request('POST', `/publishable-keys/${kept.id}/reveal`, { token }),
    ])
    expect(answers.map(({ status, body }) => [status, body.data?.code])).toEqual(
      answers.map(() => [500, 'INTERNAL_ERROR']),
    )
    expect(await state()).toEqual(before)
  })
})
