import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../../test/harness.ts'
import { verifyAuditChain } from '../../../organizations/audit-events/verify.ts'
import { newId } from '../../lib/ids.ts'
import { createSecrets } from '../../lib/secrets.ts'
import type { Database, Sql } from '../database.ts'
import { recordAudit } from './audit.ts'
import { auditKeys, chainHash, findHeads, formatHead } from './chain.ts'
import { keepFormerAuditKeys, retireAuditKeys } from './key-change.ts'

let app: TestService
let database: Database
/** An attacker who can write to the database but doesn't know the secret. */
let owner: pg.Client

beforeAll(async () => {
  app = await startTestService({}, { inheritsGrants: false })
  database = app.stores.database
  owner = new pg.Client(app.stores.owner)
  await owner.connect()
  // Row-level security applies to an owner that isn't a superuser, until the owner turns it off.
  await owner.query('alter table audit_events no force row level security')
  await owner.query('alter table audit_chains no force row level security')
})
afterAll(async () => {
  await owner.end()
  await app.close()
})

const record = (organizationId: string, target: string, by = { actor: 'ann@example.com', actorId: newId() }) =>
  database.asOrg(organizationId, (sql) =>
    recordAudit(sql, { organizationId, ...by }, 'thing.done', target, {
      n: 1.5,
      text: 'ü "quoted"',
    }),
  )

const verify = (organizationId: string, options?: Parameters<typeof verifyAuditChain>[2]) =>
  verifyAuditChain(app.stores, organizationId, options)

async function makeOrganization(): Promise<string> {
  const id = newId()
  await database.asOrg(id, (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`)
  return id
}

const byOperator = { actor: 'operator', actorId: undefined as never }

/** A new organization with a trail of five rows; the fourth one has no actor's ID. */
async function makeTrail(): Promise<string> {
  const id = await makeOrganization()
  for (let row = 1; row <= 5; row += 1) await record(id, `target-${row}`, row === 4 ? byOperator : undefined)
  return id
}

const createKey = (token: string, name: string) =>
  app.request('POST', '/publishable-keys', { token, body: { name, allowed_origins: ['https://shop.example'] } })

describe('an unmodified trail verifies', () => {
  test('row by row, with a new head each time', async () => {
    const id = await makeTrail()
    const first = await verify(id)
    expect(first).toMatchObject({ length: 5, head: expect.stringMatching(/^[0-9a-f]{64}$/) })
    await record(id, 'one more')
    const second = await verify(id)
    expect(second).toMatchObject({ length: 6, head: expect.not.stringMatching(first.head) })
    expect([first, second]).toEqual(
      [first, second].map(() => expect.not.objectContaining({ broken: expect.anything() })),
    )
  })

  test('with rows without an actor’s ID, which have the hash that they always had', async () => {
    const id = await makeTrail()
    const row = { organization_id: id, sequence: 1, id: newId(), actor: 'ann', action: 'done', target: 'x', data: {} }
    const at = '2026-01-01T00:00:00.000Z'
    const key = { id: 'k', key: Buffer.from('secret') }
    const covered = ['00', 'k', id, 1, row.id, 'ann', 'done', 'x', '{}', at]
    const hash = createHmac('sha256', key.key).update(JSON.stringify(covered)).digest('hex')
    expect(chainHash(key, '00', { ...row, actor_id: null, created_at: at })).toBe(hash)
    expect(chainHash(key, '00', { ...row, actor_id: newId(), created_at: at })).not.toBe(hash)
    const ids = await database.asOrg(id, (sql) => sql`select actor_id from audit_events order by sequence`)
    expect(ids[3]).toEqual({ actor_id: null })
    expect(await verify(id)).not.toHaveProperty('broken')
  })

  test('from the end of an earlier report', async () => {
    const id = await makeTrail()
    const noted = await verify(id)
    expect(await verify(id, { from: noted })).toEqual(noted)
    await record(id, 'one more')
    const whole = await verify(id)
    expect(whole.length).toBe(6)
    expect(await verify(id, { from: noted })).toEqual(whole)
  })

  test('with several rows of one transaction, even if they are recorded concurrently', async () => {
    const id = await makeTrail()
    await database.asOrg(id, async (sql) => {
      const add = (target: string) =>
        recordAudit(sql, { organizationId: id, actor: 'ann@example.com' }, 'thing.done', target)
      await Promise.all([add('a'), add('b'), add('c')])
      await add('d')
    })
    expect(await verify(id)).toMatchObject({ length: 9 })
    expect(await verify(id)).not.toHaveProperty('broken')
    const targets = await database.asOrg(
      id,
      (sql) => sql`select target from audit_events where sequence > 5 order by sequence`,
    )
    expect(targets).toEqual(['a', 'b', 'c', 'd'].map((target) => ({ target })))
  })

  test('with any JSON as data', async () => {
    const id = await makeTrail()
    const storable = fc.jsonValue({ maxDepth: 4 }).filter((value) => !/\\u0000|\\ud[89a-f]/.test(JSON.stringify(value)))
    const data = fc.dictionary(fc.string({ unit: 'grapheme' }), storable)
    await fc.assert(
      fc.asyncProperty(data, async (value) => {
        await database.asOrg(id, (sql) =>
          recordAudit(sql, { organizationId: id, actor: 'ann@example.com' }, 'thing.done', 'x', value),
        )
      }),
    )
    const numbers = { small: 5e-324, large: 1.7976931348623157e308, long: 0.1 + 0.2, zero: -0, 10: 1, 9: 2, b: 1, a: 2 }
    await database.asOrg(id, (sql) =>
      recordAudit(sql, { organizationId: id, actor: 'ann@example.com' }, 'thing.done', 'x', numbers),
    )
    expect(await verify(id)).not.toHaveProperty('broken')
  })

  test('after 40 concurrent changes in one organization, and 40 more in two', async () => {
    const [demo, other] = await Promise.all([app.organization('demo'), app.organization('other')])
    const [admin, otherAdmin] = await Promise.all([
      app.tokenFor('admin@demo.test', 'demo'),
      app.tokenFor('admin@other.test', 'other'),
    ])
    const lengths = async () =>
      (await Promise.all([demo, other].map((id) => verify(id)))).map(({ length, broken }) => ({
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
    expect(await verifyAuditChain({ ...app.stores, database: busy }, id)).not.toHaveProperty('broken')
  })

  test('after changes and rollbacks in any order', async () => {
    const id = await makeTrail()
    const undone = database.asOrg(id, async (sql) => {
      await recordAudit(sql, { organizationId: id, actor: 'ann@example.com' }, 'thing.undone', 'x')
      throw new Error('stop')
    })
    await Promise.allSettled([undone, ...Array.from({ length: 10 }, (_, i) => record(id, `after ${i}`))])
    const report = await verify(id)
    expect(report).toMatchObject({ length: 15 })
    expect(report).not.toHaveProperty('broken')
  })
})

/** A statement that adds a row to the chain $1 with the contents of its first row, past all constraints. */
const addRow = (sequence: number) => `
  alter table audit_events drop constraint if exists audit_events_sequence;
  alter table audit_events drop constraint if exists audit_events_pkey;
  insert into audit_events (organization_id, sequence, id, actor, action, target, data, created_at, key_id, hash)
  select organization_id, ${sequence}, gen_random_uuid(), actor, action, 'forged', data, created_at, key_id, hash
  from audit_events where organization_id = $1 and sequence = 1`

describe('verification reports a row', () => {
  const edits: Record<string, string> = {
    organization_id: '$2',
    sequence: 'sequence + 100',
    id: 'gen_random_uuid()',
    actor: `'mallory@example.com'`,
    actor_id: `gen_random_uuid()`,
    action: `'nothing.done'`,
    target: `'another'`,
    data: `data || '{"n": 2}'`,
    created_at: `created_at + interval '1 ms'`,
    key_id: `'sha256'`,
    hash: `sha256('forged')`,
  }

  test.each(Object.entries(edits))('when its %s is edited', async (column, value) => {
    const [id, elsewhere] = await Promise.all([makeTrail(), makeOrganization()])
    // References $2 even if the edit doesn't need it.
    await owner.query(
      `update audit_events set ${column} = ${value} where organization_id = $1 and sequence = 3 and $2::uuid is not null`,
      [id, elsewhere],
    )
    expect(await verify(id)).toMatchObject({ broken: { sequence: 3 } })
  })

  test('when any column is edited: the edits above include every column', async () => {
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
    [
      'the ID of its actor is removed',
      'update audit_events set actor_id = null where organization_id = $1 and sequence = 3',
      3,
      'was changed',
    ],
    [
      'it had no actor’s ID and gets one',
      'update audit_events set actor_id = id where organization_id = $1 and sequence = 4',
      4,
      'was changed',
    ],
    ['it is deleted', 'delete from audit_events where organization_id = $1 and sequence = 3', 3, 'is missing'],
    [
      'it was the first and is deleted',
      'delete from audit_events where organization_id = $1 and sequence = 1',
      1,
      'is missing',
    ],
    ['it is swapped with another row', swap('3', '2'), 2, 'was changed'],
    [
      'it is the first of a tail that was cut',
      'delete from audit_events where organization_id = $1 and sequence > 3',
      4,
      'up to 5',
    ],
    ['all are deleted', 'delete from audit_events where organization_id = $1', 1, 'up to 5'],
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
    ['the head is deleted', 'delete from audit_chains where organization_id = $1', 5, 'the head'],
    [
      'it was edited and its own hash was recomputed',
      `update audit_events e set actor = 'mallory', hash = audit_hash(
         (select hash from audit_events where organization_id = $1 and sequence = 2),
         jsonb_populate_record(e, '{"actor": "mallory"}'))
       where organization_id = $1 and sequence = 3`,
      3,
      'was changed',
    ],
    [
      'it and all the others were replaced by rows with valid plain hashes',
      `do $body$ declare event audit_events; previous bytea := sha256(''); begin
         for event in select * from audit_events where organization_id = $1 order by sequence loop
           event.actor := 'mallory';
           previous := audit_hash(previous, event);
           update audit_events set actor = event.actor, actor_id = null, key_id = 'sha256', hash = previous
           where organization_id = $1 and sequence = event.sequence;
         end loop;
         update audit_chains set hash = previous where organization_id = $1;
       end $body$`,
      1,
      'which no row under a current key has retired',
    ],
    [
      'the organization’s whole trail is deleted',
      'delete from audit_events where organization_id = $1; delete from audit_chains where organization_id = $1',
      1,
      'no audit trail',
    ],
    [
      'it was forged after the head',
      `insert into audit_events (organization_id, sequence, id, actor, action, target, data, key_id, hash)
       select $1, 6, gen_random_uuid(), 'mallory', 'thing.done', 'x', '{}', key_id, sha256('forged')
       from audit_events where organization_id = $1 and sequence = 5`,
      6,
      'was changed',
    ],
    ['it was added before the first', addRow(0), 0, 'was added'],
    ['it was added with a negative number', addRow(-8), -8, 'was added'],
    ['it was added with the number of the first', addRow(1), 1, 'the row'],
    ['it was added with the number of the last', addRow(5), 5, 'the row'],
    ['a gap was left before it', addRow(7), 6, 'is missing'],
  ])('when %s', async (_, tamper, sequence, problem) => {
    const id = await makeTrail()
    // A query with several statements can't have parameters.
    await owner.query(tamper.replaceAll('$1', pg.escapeLiteral(id)))
    expect(await verify(id)).toMatchObject({
      broken: { sequence, problem: expect.stringContaining(problem) },
    })
  })

  test('that was added, also with the heads of an earlier verification', async () => {
    const id = await makeTrail()
    const { length, head } = await verify(id)
    const earlier = [{ organizationId: id, sequence: length, hash: head }]
    expect(await verify(id, { earlier })).not.toHaveProperty('broken')
    await owner.query(addRow(0).replaceAll('$1', pg.escapeLiteral(id)))
    expect(await verify(id, { earlier })).toMatchObject({ broken: { sequence: 0, problem: 'the row was added' } })
  })

  test('that was added with the number of the last row of a turn', async () => {
    const id = await makeOrganization()
    await database.asOrg(id, async (sql) => {
      for (let row = 1; row <= 1_003; row += 1)
        await recordAudit(sql, { organizationId: id, actor: 'ann@example.com' }, 'thing.done', 'x')
    })
    expect(await verify(id)).not.toHaveProperty('broken')
    for (const sequence of [1_000, 1_001, 1_002]) {
      await owner.query(addRow(sequence).replaceAll('$1', pg.escapeLiteral(id)))
      expect(await verify(id)).toMatchObject({ broken: { sequence } })
      await owner.query(`delete from audit_events where organization_id = $1 and target = 'forged'`, [id])
    }
  })

  test('below 1 is refused by the database', async () => {
    const fresh = await useTestService()
    const id = await fresh.organization('demo')
    const add = (sequence: number) =>
      fresh.service.database.asOrg(
        id,
        (sql) => sql`
          insert into audit_events (organization_id, sequence, id, actor, action, target, data, key_id, hash)
          values (${id}, ${sequence}, gen_random_uuid(), 'ceo@demo.test', 'thing.done', 'x', '{}', 'k', '')`,
      )
    await expect(add(0)).rejects.toThrow('audit_events_sequence')
    await expect(add(-1)).rejects.toThrow('audit_events_sequence')
  })

  /** Removes the last row so that the rest is consistent, which needs no key. */
  const cutTail = (id: string) =>
    owner.query(`
      delete from audit_events e using audit_chains c
      where e.organization_id = '${id}' and c.organization_id = e.organization_id and sequence = length;
      update audit_chains c set length = c.length - 1, hash = e.hash from audit_events e
      where e.organization_id = '${id}' and c.organization_id = e.organization_id and sequence = c.length - 1`)

  test('that was cut from the end, or replaced, after its head was recorded elsewhere', async () => {
    const id = await makeTrail()
    const { length: sequence, head: hash } = await verify(id)
    const earlier = findHeads(`demo: 5 rows, head ${formatHead({ organizationId: id, sequence, hash })}\n`)
    expect(earlier).toEqual([{ organizationId: id, sequence: 5, hash }])
    expect(await verify(id, { earlier })).toMatchObject({ length: 5, head: hash })

    await cutTail(id)
    expect(await verify(id), 'an older state of the chain is as genuine as the latest').not.toHaveProperty('broken')
    expect(await verify(id, { earlier })).toMatchObject({
      broken: { sequence: 5, problem: 'rows up to 5 are missing, although an earlier head includes them' },
    })
    await record(id, 'something else')
    await record(id, 'and more')
    expect(await verify(id)).not.toHaveProperty('broken')
    expect(await verify(id, { earlier })).toMatchObject({
      length: 4,
      broken: { sequence: 5, problem: 'the row does not match an earlier head' },
    })
  })

  test('that belongs to another organization’s chain', async () => {
    const [id, other] = await Promise.all([makeTrail(), makeTrail()])
    await owner.query(`
      delete from audit_events where organization_id = '${id}';
      update audit_events set organization_id = '${id}' where organization_id = '${other}';
      update audit_chains set hash = (select hash from audit_chains where organization_id = '${other}')
      where organization_id = '${id}'`)
    expect(await verify(id)).toMatchObject({ broken: { sequence: 1 } })
  })
})

describe('after the secret is rotated', () => {
  const [former, current] = ['the-former-secret-0123456789-abcdef', 'the-current-secret-0123456789-abcde']
  const [before, during, after] = [createSecrets([former]), createSecrets([current, former]), createSecrets([current])]
  const [formerKey] = auditKeys(before)

  /** Adds rows like a node with these secrets. */
  const recordWith = (secrets: typeof before, organizationId: string, ...targets: string[]) =>
    database.asOrg(organizationId, async (sql) => {
      const [auditKey] = auditKeys(secrets)
      const own: Sql = Object.assign(
        <Row>(strings: TemplateStringsArray, ...values: unknown[]) => sql<Row>(strings, ...values),
        { auditKey },
      )
      for (const target of targets) {
        await recordAudit(own, { organizationId, actor: 'ann@example.com' }, 'thing.done', target)
      }
    })
  const verifyWith = (secrets: typeof before, id: string) => verifyAuditChain({ database, secrets }, id)

  async function rotate(id: string) {
    await keepFormerAuditKeys(owner, during)
    await owner.query('begin')
    await retireAuditKeys(owner, during, id, [formerKey.id])
    await owner.query('commit')
  }

  async function makeRotatedTrail() {
    const id = await makeOrganization()
    await recordWith(before, id, 'one', 'two')
    // Nodes change secrets one by one.
    await recordWith(during, id, 'three')
    await recordWith(before, id, 'four')
    await rotate(id)
    await recordWith(after, id, 'six')
    return id
  }

  test('rows under both keys verify with the new secret alone', async () => {
    const id = await makeRotatedTrail()
    await rotate(id)
    for (const secrets of [during, after]) {
      const report = await verifyWith(secrets, id)
      expect(report).toMatchObject({ length: 6 })
      expect(report, 'and the rotation is recorded once').not.toHaveProperty('broken')
    }
    expect(await verifyWith(before, id)).toMatchObject({
      broken: { sequence: 3, problem: expect.stringContaining('unknown key') },
    })
  })

  /** Forges rows with the former secret and write access to the database. */
  async function forge(id: string, from: number) {
    await owner.query('delete from audit_events where organization_id = $1 and sequence >= $2', [id, from])
    const last = await owner.query<{ hash: string }>(
      `select encode(hash, 'hex') as hash from audit_events where organization_id = $1 and sequence = $2`,
      [id, from - 1],
    )
    const row = {
      ...{ organization_id: id, sequence: from, id: newId(), actor: 'mallory', action: 'thing.done', target: 'forged' },
      ...{ actor_id: null, data: {}, created_at: '2026-01-01T00:00:00.000Z' },
    }
    const hash = chainHash(formerKey, last.rows[0]?.hash ?? '', row)
    await owner.query(
      `insert into audit_events (organization_id, sequence, id, actor, action, target, data, created_at, key_id, hash)
       values ($1, $2, $3, $4, $5, $6, '{}', $7, $8, decode($9, 'hex'))`,
      [id, from, row.id, row.actor, row.action, row.target, row.created_at, formerKey.id, hash],
    )
    await owner.query(`update audit_chains set length = $2, hash = decode($3, 'hex') where organization_id = $1`, [
      ...[id, from, hash],
    ])
  }

  test('rows that are forged with the former secret are reported', async () => {
    const [behind, instead] = [await makeRotatedTrail(), await makeRotatedTrail()]
    await forge(behind, 7)
    await recordWith(after, behind, 'a genuine row on top')
    expect(await verifyWith(after, behind)).toMatchObject({
      broken: { sequence: 7, problem: `the row uses the key ${formerKey.id}, which was retired before it` },
    })
    // The row that records the rotation is deleted too.
    await forge(instead, 5)
    await recordWith(after, instead, 'a genuine row on top')
    expect(await verifyWith(after, instead)).toMatchObject({
      broken: { sequence: 1, problem: expect.stringContaining('which no row under a current key has retired') },
    })
  })

  test('the rows of a former key are reported if that key was deleted or replaced', async () => {
    const id = await makeRotatedTrail()
    await owner.query('update audit_keys set key_sealed = $1 where id = $2', [
      after.seal(Buffer.alloc(32).toString('base64url'), 'audit_keys.key_sealed:another'),
      formerKey.id,
    ])
    expect(await verifyWith(after, id)).toMatchObject({
      broken: { sequence: 1, problem: expect.stringContaining('unknown key') },
    })
    await owner.query('delete from audit_keys')
    expect(await verifyWith(after, id)).toMatchObject({
      broken: { sequence: 1, problem: expect.stringContaining('unknown key') },
    })
  })
})

describe('a change fails', () => {
  test('when its audit row cannot be written', async () => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const demo = await app.organization('demo')
    const kept = (await createKey(token, 'kept')).body
    const state = async () => ({
      keys: (await app.request('GET', '/publishable-keys', { token })).body,
      trail: await verify(demo),
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
