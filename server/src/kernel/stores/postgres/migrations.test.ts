import { gzipSync } from 'node:zlib'
import pg from 'pg'
import { parseIntoClientConfig } from 'pg-connection-string'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { makeRelease, shipped } from '../../../../test/releases.ts'
import { verifyAuditChain } from '../../../organizations/audit-events/verify.ts'
import { findTrustedIssuer, type IdpType } from '../../../visitors/identity-provider/issuers.ts'
import { newId } from '../../lib/ids.ts'
import { createSecrets } from '../../lib/secrets.ts'
import { canonicalEmail } from '../../net/email-addresses.ts'
import { recordAudit } from '../audit/audit.ts'
import { auditKeys } from '../audit/chain.ts'
import { openDatabase } from '../database.ts'
import { dropFormerLogins, migrate, serviceConnection } from './migrations.ts'

const [secret, nextSecret] = ['migrations-secret-0123456789-abcdef', 'another-secret-0123456789-abcdefgh']
const secrets = createSecrets([secret])
const next = createSecrets([nextSecret])
/** The secrets in the middle of a rotation. */
const both = createSecrets([nextSecret, secret])

const ownerOf = (database: string): pg.ClientConfig =>
  parseIntoClientConfig(inject('engines').databaseUrl.replace('DATABASE', database))

async function connect(connection: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** An empty database, and a connection as its owner. */
async function makeDatabase(): Promise<{ owner: pg.ClientConfig; client: pg.Client }> {
  const name = `m_${newId().replaceAll('-', '')}`
  const cluster = await connect(ownerOf('postgres'))
  await cluster.query(`create database ${name}`)
  // Waits for sessions that are ending, because the owner isn't allowed to end them by force.
  onTestFinished(async () => void (await cluster.query(`drop database ${name}`)))
  return { owner: ownerOf(name), client: await connect(ownerOf(name)) }
}

const tablesOf = async (client: pg.Client): Promise<string[]> =>
  (
    await client.query<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`,
    )
  ).rows.map(({ name }) => name)

const recorded = async (client: pg.Client): Promise<string[]> =>
  (await client.query<{ name: string }>(`select name from migrations where name like '0%' order by name`)).rows.map(
    ({ name }) => name,
  )

/** Waits until the running migration waits for a lock, then kills its connection as if the machine died. */
async function killWhenBlocked(client: pg.Client): Promise<void> {
  await vi.waitFor(
    async () => {
      const { rows } = await client.query(`
        select pg_terminate_backend(pid, 10000) from pg_stat_activity
        where application_name = 'inlay migrate' and datname = current_database() and wait_event_type = 'Lock'`)
      expect(rows).toHaveLength(1)
    },
    { interval: 20 },
  )
}

/** Checks that the service can work with its own connection. */
async function serviceWorks(owner: pg.ClientConfig, by = secrets): Promise<void> {
  const [auditKey] = auditKeys(by)
  const database = openDatabase({ connection: serviceConnection(owner, by), auditKey, connections: 1 })
  onTestFinished(() => database.close())
  const id = newId()
  await database.asOrg(id, (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`)
  expect(await database.asOrg(id, (sql) => sql`select id from organizations`)).toEqual([{ id }])
  expect(await database.asService((sql) => sql`select id from organizations`)).toEqual([])
}

describe('an empty database', () => {
  test('is brought up to date, so that the service works', async () => {
    const { owner, client } = await makeDatabase()
    expect(await migrate(owner, secrets)).toEqual({ applied: shipped })
    expect(await recorded(client)).toEqual(shipped)
    await serviceWorks(owner)
  })

  test('is migrated once by nodes that start together', async () => {
    const { owner, client } = await makeDatabase()
    const runs = await Promise.all(Array.from({ length: 5 }, () => migrate(owner, secrets)))
    expect(runs.flatMap(({ applied }) => applied)).toEqual(shipped)
    expect(await recorded(client)).toEqual(shipped)
    await serviceWorks(owner)
  })
})

describe('an up-to-date database', () => {
  test('is left unchanged', async () => {
    const { owner, client } = await makeDatabase()
    await migrate(owner, secrets)
    const catalogue = async () =>
      (
        await client.query(`
          select 'policy' as kind, oid, xmin::text from pg_policy union all
          select 'table', oid, xmin::text from pg_class where relnamespace = 'public'::regnamespace union all
          select 'role', oid, rolname::text from pg_roles where starts_with(rolname, current_database()) union all
          select 'migration', 0, name || applied_at from migrations order by 1, 2, 3`)
      ).rows
    const before = await catalogue()
    expect(await migrate(owner, secrets)).toEqual({ applied: [] })
    expect(await catalogue()).toEqual(before)
    expect(before.filter(({ kind }) => kind === 'policy').length).toBeGreaterThan(5)
  })

  test('accepts a new secret without losing the old one, until that is dropped', async () => {
    const { owner } = await makeDatabase()
    await migrate(owner, secrets)
    await migrate(owner, both)
    await Promise.all([secrets, both, next].map((by) => serviceWorks(owner, by)))
    await dropFormerLogins(owner, next)
    await serviceWorks(owner, next)
    await expect(serviceWorks(owner, secrets)).rejects.toThrow('The database is not reachable')
  })

  test('is rejected if a migration was changed after it was applied', async () => {
    const { owner, client } = await makeDatabase()
    await migrate(owner, secrets)
    await client.query(`update migrations set checksum = 'another'`)
    await expect(migrate(owner, secrets)).rejects.toMatchObject({
      name: 'MigrationFailed',
      message: `${shipped[0]} was changed after it was applied; add a new migration instead`,
    })
  })

  test('is rejected by an older release', async () => {
    const { owner, client } = await makeDatabase()
    const later = await makeRelease({ '0900_later.sql': 'create table later ()' })
    expect(await later(owner, secrets)).toEqual({ applied: [...shipped, '0900_later.sql'] })
    await expect(migrate(owner, secrets)).rejects.toMatchObject({
      name: 'MigrationFailed',
      message: 'The database is newer than this release: it includes 0900_later.sql. Run the newer release.',
    })
    expect(await tablesOf(client)).toContain('later')
  })
})

describe('a migration', () => {
  test('to keyed audit chains keeps earlier rows verifiable, and seals them with a keyed row', async () => {
    const { owner, client } = await makeDatabase()
    await (await makeRelease({}, '0013'))(owner, secrets)
    const [old, empty] = [newId(), newId()]
    const [auditKey] = auditKeys(secrets)
    const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
    onTestFinished(() => database.close())
    for (const id of [old, empty]) {
      await database.asOrg(id, (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`)
    }
    for (let n = 0; n < 3; n += 1) {
      await database.asOrg(
        old,
        (sql) => sql`
          insert into audit_events (organization_id, id, actor, action, target, data)
          values (${old}, ${newId()}, 'ann', 'done', 'x', '{"b": 1, "a": 2}')`,
      )
    }
    await migrate(owner, secrets)
    const verify = async (id: string) => {
      const { length, broken } = await verifyAuditChain({ database, secrets }, id)
      return { length, broken }
    }
    expect(await verify(old)).toEqual({ length: 4, broken: undefined })
    expect(await verify(empty), 'every organization has a trail').toEqual({ length: 1, broken: undefined })
    await database.asOrg(old, (sql) => recordAudit(sql, { organizationId: old, actor: 'ann' }, 'done', 'x'))
    expect(await verify(old)).toEqual({ length: 5, broken: undefined })

    // The keyed row protects the earlier rows, which could be rewritten before.
    await client.query('alter table audit_events no force row level security')
    const setActor = (value: string) =>
      client.query(`update audit_events set actor_id = ${value} where organization_id = $1 and sequence = 2`, [old])
    await setActor('gen_random_uuid()')
    expect(await verify(old), 'their hash doesn’t cover it').toMatchObject({ broken: { sequence: 2 } })
    await setActor('null')
    await client.query(
      `update audit_events e set actor = 'mallory', hash = audit_hash(
         (select hash from audit_events where organization_id = $1 and sequence = 2),
         jsonb_populate_record(e, '{"actor": "mallory"}'))
       where organization_id = $1 and sequence = 3`,
      [old],
    )
    expect(await verify(old)).toMatchObject({ length: 3, broken: { sequence: 4 } })
    await client.query('delete from audit_events where organization_id = $1 and sequence > 3', [old])
    await client.query('alter table audit_chains no force row level security')
    await client.query(
      `update audit_chains c set length = 3, hash = e.hash from audit_events e
       where c.organization_id = $1 and e.organization_id = $1 and sequence = 3`,
      [old],
    )
    expect(await verify(old), 'nor can the keyed rows be left out').toMatchObject({ broken: { sequence: 1 } })
  })

  test('to a row per tool call keeps every record of the batches, and no address', async () => {
    const { owner, client } = await makeDatabase()
    await (await makeRelease({}, '0048'))(owner, secrets)
    const [auditKey] = auditKeys(secrets)
    const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
    onTestFinished(() => database.close())
    const organizations = [newId(), newId()].toSorted()
    const [ann, nobody] = [newId(), newId()]
    const at = Date.parse('2026-03-01T12:00:00.123Z')
    const recordOf = (n: number) => ({
      ...{ id: newId(), at: at + n, user_id: n % 2 ? ann : nobody, user_email: 'ann@example.com', client_id: null },
      ...{ client_name: 'Agent', source_type: 'page', source: 'https://shop.example', tool: `tool\0 ${n}` },
      ...{ definition_hash: 'd', arguments_hash: 'a', approval: 'allowed', approval_at: n % 2 ? at + n + 5 : null },
      ...{ governance: 'none', outcome: 'succeeded', failure_code: null, duration_ms: n },
    })
    const calls = Array.from({ length: 2_345 }, (_, n) => recordOf(n))
    for (const id of organizations)
      await database.asOrg(id, async (sql) => {
        await sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`
        await sql`
          insert into end_users (organization_id, id, external_id, email)
          select ${id}, ${ann}, 'ann', 'ann@example.com' where ${id} = ${organizations[0]}`
        for (const some of [calls.slice(0, 2_300), calls.slice(2_300)]) {
          const records = gzipSync(some.map((call) => `${JSON.stringify(call)}\n`).join(''))
          const batch = newId()
          await sql`
            insert into tool_call_batches (organization_id, id, first_at, last_at, count, records)
            values (${id}, ${batch}, now(), now(), ${some.length}, ${records})`
          await sql`insert into tool_call_users (organization_id, user_id, batch_id) values (${id}, ${ann}, ${batch})`
        }
        await sql`
          insert into tool_call_contents (organization_id, call_id, user_email, arguments, at, expires_at)
          values (${id}, ${calls[1]?.id}, 'ann@example.com', '{}', ${new Date(at + 1).toISOString()}, now())`
      })
    await migrate(owner, secrets)

    for (const id of organizations) {
      const rows = await database.asOrg(id, (sql) => sql`select * from tool_call_records order by at`)
      const expected = calls.map(({ user_email, at, approval_at, tool, ...call }) => ({
        ...{ ...call, organization_id: id, tool: tool.replace('\0', ''), at: new Date(at).toISOString() },
        approval_at: approval_at && new Date(approval_at).toISOString(),
      }))
      expect(rows).toEqual(expected)
    }
    const contents = await Promise.all(
      organizations.map((id) => database.asOrg(id, (sql) => sql`select call_id, end_user_id from tool_call_contents`)),
    )
    expect(contents, 'without an end user to erase them, they are deleted').toEqual([
      [{ call_id: calls[1]?.id, end_user_id: ann }],
      [],
    ])
    expect(await tablesOf(client)).not.toEqual(expect.arrayContaining(['tool_call_batches']))
    await serviceWorks(owner)
  })

  test('to kept totals counts each row once, also those that change between its steps', async () => {
    const { owner } = await makeDatabase()
    await (await makeRelease({}, '0063'))(owner, secrets)
    const [auditKey] = auditKeys(secrets)
    const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
    onTestFinished(() => database.close())
    const id = newId()
    const addThreads = (status: string, messages: number) =>
      database.asOrg(
        id,
        (sql) => sql`
          insert into threads (organization_id, id, status, message_count, total_tokens)
          select current_organization(), gen_random_uuid(), ${status}, ${messages}, 10 from generate_series(1, 3)`,
      )
    await database.asOrg(id, (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`)
    await database.asOrg(
      id,
      (sql) => sql`insert into end_users (organization_id, id, external_id) values (${id}, ${newId()}, 'ann')`,
    )
    await addThreads('regular', 1)
    await addThreads('archived', 1)
    await (await makeRelease({}, '0064'))(owner, secrets)
    await addThreads('regular', 2)
    await database.asOrg(id, (sql) => sql`delete from threads where status = 'archived'`)
    await migrate(owner, secrets)
    expect(
      await database.asOrg(
        id,
        (sql) => sql`
          select list, sum(items) as items, sum(messages) as messages, sum(tokens) as tokens
          from list_totals group by list order by list`,
      ),
    ).toEqual([
      { list: 'end_users', items: 1, messages: 0, tokens: 0 },
      { list: 'threads/archived', items: 0, messages: 0, tokens: 0 },
      { list: 'threads/regular', items: 6, messages: 9, tokens: 60 },
    ])
  })

  test('of contents gives them to who made the calls, and to no end user who merely states the address', async () => {
    const { owner } = await makeDatabase()
    await (await makeRelease({}, '0049'))(owner, secrets)
    const [auditKey] = auditKeys(secrets)
    const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
    onTestFinished(() => database.close())
    const id = newId()
    const entra = 'https://login.microsoftonline.com/t/v2.0'
    const claims: Record<string, { email: string; issuer?: string; metadata?: object; preview?: boolean }> = {
      stranger: { email: 'ann@example.com', metadata: { email_verified: 'true', text: 'a\0b' } },
      ann: { email: 'ann@example.com', metadata: { email_verified: true } },
      entra: { email: 'eva@example.com', issuer: entra, metadata: { xms_edov: '1' } },
      elsewhere: { email: 'bob@example.com', metadata: { xms_edov: '1' } },
      refused: { email: 'cas@example.com', issuer: entra, metadata: { xms_edov: 1, email_verified: null } },
      preview: { email: 'old@example.com', preview: true },
    }
    const endUsers = Object.fromEntries(Object.keys(claims).map((name) => [name, newId()]))
    const addresses = { ann: 'ann', eva: 'eva', bob: 'bob', cas: 'cas', unverified: 'ann', previewer: 'new' }
    const users = Object.fromEntries(Object.keys(addresses).map((name) => [name, newId()]))
    await database.asService(async (sql) => {
      for (const [name, address] of Object.entries(addresses))
        await sql`
          insert into users (id, issuer, subject, email, email_verified, name)
          values (${users[name]}, 'https://id.example', ${name}, ${`${address}@example.com`}, ${name !== 'unverified'}, '')`
    })
    /** The person who called, and the end user with whom the contents are until now. */
    const calls: [caller: string | undefined, keptWith: string][] = [
      [users.ann, 'stranger'],
      [users.eva, 'entra'],
      [users.bob, 'elsewhere'],
      [users.cas, 'refused'],
      [users.unverified, 'ann'],
      [users.previewer, 'stranger'],
      [endUsers.ann, 'stranger'],
      [endUsers.stranger, 'stranger'],
      [newId(), 'ann'],
      [undefined, 'ann'],
    ]
    const ids = calls.map(() => newId())
    await database.asOrg(id, async (sql) => {
      await sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`
      for (const [name, { email, issuer = 'https://id.example', metadata = {}, preview }] of Object.entries(claims))
        await sql`
          insert into end_users (organization_id, id, issuer, external_id, email, metadata, preview_user_id)
          values (${id}, ${endUsers[name]}, ${issuer}, ${name}, ${email}, ${JSON.stringify(metadata)},
                  ${preview ? users.previewer : null})`
      for (const [n, [caller, keptWith]] of calls.entries()) {
        await sql`
          insert into tool_call_contents (organization_id, call_id, end_user_id, arguments, at, expires_at)
          values (${id}, ${ids[n]}, ${endUsers[keptWith]}, '{}', '2026-03-01T12:00:00.123Z', now())`
        if (caller !== undefined)
          await sql`
            insert into tool_call_records (organization_id, at, id, user_id, tool, arguments_hash, approval, governance,
                                           outcome, duration_ms)
            values (${id}, '2026-03-01T12:00:00.123Z', ${ids[n]}, ${caller}, 'add', '', 'allowed', 'none', 'succeeded', 1)`
      }
    })
    await migrate(owner, secrets)
    const rows = await database.asOrg(
      id,
      (sql) => sql<{ call_id: string; end_user_id: string; user_id: string }>`select * from tool_call_contents`,
    )
    const nameOf = (wanted: string | undefined) => Object.keys(endUsers).find((name) => endUsers[name] === wanted)
    const keptWith = ids
      .map((one) => rows.find(({ call_id }) => call_id === one))
      .map((row) => nameOf(row?.end_user_id))
    expect(keptWith).toEqual([
      ...['ann', 'entra', undefined, undefined, undefined],
      ...['preview', 'ann', 'stranger', undefined, undefined],
    ])
    for (const { call_id, user_id } of rows) expect(user_id).toBe(calls[ids.indexOf(call_id)]?.[0])
  })

  test('that fails leaves nothing behind, and runs again once it is fixed', async () => {
    const { owner, client } = await makeDatabase()
    await migrate(owner, secrets)
    const before = await tablesOf(client)
    const broken = await makeRelease({ '0900_notes.sql': 'create table notes (id int); select 1 / 0' })
    await expect(broken(owner, secrets)).rejects.toMatchObject({
      name: 'MigrationFailed',
      message: '0900_notes.sql: division by zero',
    })
    expect([await tablesOf(client), await recorded(client)]).toEqual([before, shipped])
    await serviceWorks(owner)
    const mended = await makeRelease({ '0900_notes.sql': 'create table notes (id int)' })
    expect(await mended(owner, secrets)).toEqual({ applied: ['0900_notes.sql'] })
  })

  test('that is killed after its last statement leaves nothing behind, and runs again', async () => {
    const { owner, client } = await makeDatabase()
    const holder = await connect(owner)
    // The same table as in `migrate`. The lock allows the schema to be created, but not recorded.
    await holder.query(
      'create table migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())',
    )
    await holder.query('begin')
    await holder.query('lock table migrations in share mode')
    const run = migrate(owner, secrets).catch((error: Error) => error)
    await killWhenBlocked(client)
    expect(await run).toMatchObject({ name: 'MigrationFailed', message: expect.stringContaining(shipped[0] ?? '') })
    await holder.query('rollback')
    expect([await tablesOf(client), await recorded(client)]).toEqual([['migrations'], []])
    expect(await migrate(owner, secrets)).toEqual({ applied: shipped })
    await serviceWorks(owner)
  })

  test('gets row-level security on its new tables even if it is killed before that step', async () => {
    const { owner, client } = await makeDatabase()
    await migrate(owner, secrets)
    const later = await makeRelease({
      '0900_notes.sql': `create table notes (
        organization_id uuid references organizations (id), id uuid, primary key (organization_id, id))`,
    })
    // Tables get their walls in the order of their names, and this one has lost its own.
    await client.query('drop policy tenant on budgets')
    const holder = await connect(owner)
    await holder.query('begin')
    await holder.query('lock table budgets in access share mode')
    const run = later(owner, secrets).catch((error: Error) => error)
    await killWhenBlocked(client)
    expect(await run).toBeInstanceOf(Error)
    expect(await recorded(client)).toContain('0900_notes.sql')
    const service = await connect(serviceConnection(owner, secrets))
    await expect(service.query('select from notes')).rejects.toMatchObject({ code: '42501' })
    await holder.query('rollback')

    await later(owner, secrets)
    expect((await service.query('select from notes')).rows).toEqual([])
    const { rows } = await client.query(`
      select relname, relrowsecurity, relforcerowsecurity, (select count(*) from pg_policy where polrelid = c.oid) as policies,
             has_table_privilege(current_database() || '_service', c.oid, 'insert') as granted
      from pg_class c where relname = 'notes'`)
    expect(rows).toEqual([
      { relname: 'notes', relrowsecurity: true, relforcerowsecurity: true, policies: '1', granted: true },
    ])
  })
})

test('an owner that cannot create roles gets an error, and can continue once it has CREATEROLE', async () => {
  const cluster = await connect(ownerOf('postgres'))
  const name = `m_${newId().replaceAll('-', '')}`
  await cluster.query(`create role ${name} login password 'plain'`)
  await cluster.query(`grant ${name} to current_user`)
  await cluster.query(`create database ${name} owner ${name}`)
  onTestFinished(async () => void (await cluster.query(`drop database ${name}`)))
  const owner = { ...ownerOf(name), user: name, password: 'plain' }
  await expect(migrate(owner, secrets)).rejects.toMatchObject({
    name: 'MigrationFailed',
    message: expect.stringMatching(
      /^Could not create the role m_\w+_service \(.+\)\. The role in DATABASE_URL needs CREATEROLE: alter role … createrole$/,
    ),
  })
  await cluster.query(`alter role ${name} createrole`)
  await migrate(owner, secrets)
  await serviceWorks(owner)
})

describe('a database in which every received origin became a site', () => {
  test('keeps the sites that an administrator allowed, and moves the usage of others to the wildcard that covers them or to no site', async () => {
    const { owner } = await makeDatabase()
    const earlier = await makeRelease({}, '0011')
    await earlier(owner, secrets)
    const [auditKey] = auditKeys(secrets)
    const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
    onTestFinished(() => database.close())
    const [organization, other] = [newId(), newId()]
    for (const id of [organization, other]) {
      await database.asOrg(id, async (sql) => {
        await sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`
        await sql`
          insert into publishable_keys (organization_id, id, name, key_prefix, key_hash, allowed_origins, revoked_at)
          values (${id}, ${newId()}, 'Live', 'pk', ${newId()}, '{https://shop.example,https://*.preview.example,https://new.example}', null),
                 (${id}, ${newId()}, 'Old', 'pk', ${newId()}, '{https://old.example,https://unused.example}', now())`
        await sql`insert into identity_providers (organization_id, allowed_domains) values (${id}, '{https://help.example}')`
        const origins = [
          'shop',
          'a.preview',
          'b.preview',
          'old',
          'unused',
          'help',
          'stranger-1',
          'stranger-2',
          'a.b.preview',
        ]
        for (const name of origins) {
          const siteId = newId()
          await sql`
            insert into sites (organization_id, id, origin, name) values (${id}, ${siteId}, ${`https://${name}.example`}, ${name})`
          if (name === 'unused') continue
          const threadId = newId()
          await sql`insert into threads (organization_id, id, site_id) values (${id}, ${threadId}, ${siteId})`
          await sql`
            insert into usage_events (organization_id, id, site_id, thread_id, prompt_tokens, completion_tokens, model, finish_reason, created_at)
            values (${id}, ${newId()}, ${siteId}, ${threadId}, 10, 1, 'm', 'stop', '2026-03-10T00:00:00Z')`
          await sql`
            insert into usage_site_days (organization_id, day, site_id, requests, prompt_tokens, completion_tokens)
            values (${id}, '2026-03-10', ${siteId}, 1, 10, 1)`
        }
      })
    }
    await migrate(owner, secrets)
    for (const id of [organization, other]) {
      const [sites, sums, events, threads] = await database.asOrg(id, (sql) =>
        Promise.all([
          sql`select origin, name, is_allowed from sites order by origin collate "C"`,
          sql`
            select origin, requests, prompt_tokens, completion_tokens from usage_site_days left join sites on id = site_id
            order by origin collate "C"`,
          sql`select origin, count(*) from usage_events left join sites s on s.id = site_id group by origin order by origin collate "C"`,
          sql`select s.origin, count(*) from threads left join sites s on s.id = site_id group by s.origin order by s.origin collate "C"`,
        ]),
      )
      expect(sites.map(Object.values)).toEqual([
        ['https://*.preview.example', '*.preview.example', true],
        ['https://help.example', 'help', true],
        ['https://new.example', 'new.example', true],
        ['https://old.example', 'old', false],
        ['https://shop.example', 'shop', true],
      ])
      const counts: [string | null, number][] = [
        ['https://*.preview.example', 2],
        ['https://help.example', 1],
        ['https://old.example', 1],
        ['https://shop.example', 1],
        [null, 3],
      ]
      expect(sums.map(Object.values)).toEqual(counts.map(([origin, count]) => [origin, count, 10 * count, count]))
      expect(events.map(Object.values)).toEqual(counts)
      expect(threads.map(Object.values)).toEqual(counts)
    }
  })
})

test('a database with usage also gets it per model, without a cost', async () => {
  const { owner } = await makeDatabase()
  await (await makeRelease({}, '0020'))(owner, secrets)
  const [auditKey] = auditKeys(secrets)
  const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
  onTestFinished(() => database.close())
  const organizations = [newId(), newId()]
  for (const id of organizations) {
    await database.asOrg(id, async (sql) => {
      await sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`
      await sql`
        insert into usage_events (organization_id, id, prompt_tokens, completion_tokens, model, finish_reason, created_at)
        select ${id}, gen_random_uuid(), 10, 1, model, 'stop', at
        from unnest('{large,small}'::text[]) model,
             unnest('{2026-03-07T23:59:59Z,2026-03-08T00:00:00Z,2026-03-08T12:00:00Z}'::timestamptz[]) at`
    })
  }
  await migrate(owner, secrets)
  for (const id of organizations) {
    const days = await database.asOrg(
      id,
      (sql) => sql`
        select day, model, requests, prompt_tokens, completion_tokens, cost_micro_usd from usage_model_days
        order by day, model`,
    )
    expect(days.map(Object.values)).toEqual([
      ['2026-03-07', 'large', 1, 10, 1, 0],
      ['2026-03-07', 'small', 1, 10, 1, 0],
      ['2026-03-08', 'large', 2, 20, 2, 0],
      ['2026-03-08', 'small', 2, 20, 2, 0],
    ])
    const events = await database.asOrg(
      id,
      (sql) => sql`select distinct cost_micro_usd, is_estimated from usage_events`,
    )
    expect(events).toEqual([{ cost_micro_usd: null, is_estimated: false }])
  }
})

test('a database with usage per end user and day also gets it per eight days', async () => {
  const { owner } = await makeDatabase()
  await (await makeRelease({}, '0016'))(owner, secrets)
  const [auditKey] = auditKeys(secrets)
  const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
  onTestFinished(() => database.close())
  const [organization, other, ann, bob] = [newId(), newId(), newId(), newId()]
  // 2026-03-08 and 1969-12-24 begin spans of eight days.
  const days = ['2026-03-07', '2026-03-08', '2026-03-15', '2026-03-16', '1969-12-24', '1969-12-31']
  for (const [id, tokens] of [
    [organization, 10],
    [other, 100],
  ] as const) {
    await database.asOrg(id, async (sql) => {
      await sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`
      await sql`insert into end_users (organization_id, id, external_id) values (${id}, ${ann}, 'ann'), (${id}, ${bob}, 'bob')`
      await sql`
        insert into usage_end_user_days (organization_id, day, end_user_id, requests, prompt_tokens, completion_tokens)
        select ${id}, day, person, 1, ${tokens}, 1 from unnest(${days}::date[]) day, unnest(${[ann, bob]}::uuid[]) person`
    })
  }
  await migrate(owner, secrets)
  for (const [id, tokens] of [
    [organization, 10],
    [other, 100],
  ] as const) {
    const rows = await database.asOrg(
      id,
      (sql) => sql`
        select days, day, end_user_id, requests, prompt_tokens, completion_tokens from usage_end_user_spans
        where end_user_id = ${ann} order by days, day`,
    )
    const row = (days: number, day: string, count = 1) => [days, day, ann, count, count * tokens, count]
    expect(rows.map(Object.values)).toEqual([
      ...days.toSorted().map((day) => row(1, day)),
      row(8, '1969-12-24', 2),
      row(8, '2026-02-28'),
      row(8, '2026-03-08', 2),
      row(8, '2026-03-16'),
    ])
  }
})

test('a database with work at the billing provider gets it as jobs, and reads what was read before again', async () => {
  const { owner } = await makeDatabase()
  await (await makeRelease({}, '0065'))(owner, secrets)
  const [auditKey] = auditKeys(secrets)
  const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
  onTestFinished(() => database.close())
  const [busy, read, other] = [newId(), newId(), newId()]
  for (const id of [busy, read, other]) {
    await database.asOrg(id, (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`)
  }
  await database.asOrg(busy, async (sql) => {
    await sql`
      insert into billing_work (organization_id, task, due_at)
      values (${busy}, 'sync', now() - interval '1 minute'), (${busy}, 'seats', now() + interval '20 hours')`
    await sql`update organizations set billing_read_at = now() where id = ${busy}`
    await sql`
      insert into unreported_usage (organization_id, id, created_at) values (${busy}, ${newId()}, now())`
  })
  await database.asOrg(
    read,
    (sql) => sql`update organizations set billing_read_at = now() - interval '9 hours' where id = ${read}`,
  )
  await migrate(owner, secrets)
  const rows = await database.asWorker(
    (sql) => sql`
      select organization_id, kind, ceil(extract(epoch from due_at - now()) / 3600)::int as within_hours
      from jobs where kind like 'billing%' order by kind, due_at`,
  )
  expect(rows).toEqual([
    { organization_id: busy, kind: 'billing_seats', within_hours: 20 },
    { organization_id: busy, kind: 'billing_sync', within_hours: 0 },
    {
      organization_id: read,
      kind: 'billing_sync',
      within_hours: expect.toSatisfy((hours) => hours === 0 || hours === 1),
    },
    { organization_id: busy, kind: 'billing_usage', within_hours: 0 },
  ])
})

test('a database with international domains gets their addresses in the form in which they are compared', async () => {
  const { owner, client } = await makeDatabase()
  const earlier = await makeRelease({}, '0040')
  await earlier(owner, secrets)
  const domains = ['bücher.example', '例え.テスト', 'münchen-ost.de', 'пример.рф', 'faß.example', 'acme.example']
  for (const domain of domains) {
    await client.query(
      `insert into users (id, issuer, subject, email, name) values ('${newId()}', 'local', $1, $1, 'Ann')`,
      [`ánn@${domain}`],
    )
  }
  const [auditKey] = auditKeys(secrets)
  const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
  onTestFinished(() => database.close())
  const [id, directoryId] = [newId(), newId()]
  await database.asOrg(id, async (sql) => {
    await sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`
    await sql`insert into directories (organization_id, id, name, type, domain) values (${id}, ${directoryId}, 'Okta', 'okta', 'a.example')`
    for (const email of domains.map((domain) => `ánn@${domain}`)) {
      await sql`
        insert into directory_users (organization_id, directory_id, id, user_name, email, name, active)
        values (${id}, ${directoryId}, ${newId()}, ${email}, ${email}, 'Ann', true)`
      await sql`insert into directory_leavers (organization_id, email) values (${id}, ${email})`
      await sql`insert into end_users (organization_id, id, external_id, email) values (${id}, ${newId()}, ${email}, ${email})`
    }
  })
  await migrate(owner, secrets)
  const { rows } = await client.query('select subject, email from users order by id')
  const emails = domains.map((domain) => canonicalEmail(`ánn@${domain}`))
  expect(rows).toEqual(emails.map((email) => ({ subject: email, email })))
  const ofOrganization = await database.asOrg(id, (sql) =>
    Promise.all([
      sql<{ email: string }>`select email from directory_users`,
      sql<{ email: string }>`select email from directory_leavers`,
      sql<{ email: string }>`select email from end_users`,
    ]),
  )
  for (const found of ofOrganization) expect(found.map(({ email }) => email).toSorted()).toEqual(emails.toSorted())
})

test('a database without issuers gives end users and connectors the one that is configured', async () => {
  const { owner } = await makeDatabase()
  await (await makeRelease({}, '0043'))(owner, secrets)
  const [auditKey] = auditKeys(secrets)
  const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
  onTestFinished(() => database.close())
  const settings: [type: IdpType | null, domain: string | null, issuer?: string][] = [
    ['okta', 'Acme.okta.com'],
    ['okta', 'Acme.okta.com/oauth2/Default-1'],
    ['azure', '8A1b2c3d-0000-4000-8000-1234567890ab'],
    ['azure', 'Acme.onmicrosoft.com'],
    ['auth0', 'Acme.us.auth0.com'],
    ['google', null],
    ['google', 'acme.example'],
    ['workos', 'client_01H'],
    ['workos', 'Auth.acme.example'],
    ['firebase', 'acme-1234'],
    ['onelogin', 'acme'],
    ['onelogin', 'acme.onelogin.com'],
    ['logto', 'Acme.logto.app'],
    ['custom_oidc', null, 'https://id.acme.example/Tenant/'],
    ['okta', null],
    [null, 'acme.okta.com'],
  ]
  const organizations = settings.map(() => newId())
  for (const [at, [type, domain, issuer = null]] of settings.entries()) {
    const id = organizations[at] as string
    await database.asOrg(id, async (sql) => {
      await sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`
      await sql`
        insert into identity_providers (organization_id, idp_type, idp_domain, idp_issuer)
        values (${id}, ${type}, ${domain}, ${issuer})`
      await sql`
        insert into end_users (organization_id, id, external_id, preview_user_id)
        values (${id}, ${newId()}, 'ann', null), (${id}, ${newId()}, 'inlay-preview:bob', ${newId()})`
      await sql`
        insert into connectors (organization_id, id, name, kind, server_url, client_id, client_secret_sealed, scopes,
          audience_mode, status)
        values (${id}, ${newId()}, 'crm', 'id_jag', 'https://crm.example', 'hub', 'sealed', '{a}', 'resource', 'active')`
    })
  }
  await migrate(owner, secrets)
  for (const [at, [idp_type, idp_domain, idp_issuer = null]] of settings.entries()) {
    const found = findTrustedIssuer({ idp_type, idp_domain, idp_issuer, allowed_audiences: null }, 'production')?.issuer
    const rows = await database.asOrg(
      organizations[at] as string,
      (sql) => sql`
        select (select issuer from end_users where preview_user_id is null) as of_user,
               (select issuer from end_users where preview_user_id is not null) as of_preview,
               (select idp_issuer from connectors) as of_secret`,
    )
    expect(rows, `${idp_type} ${idp_domain}`).toEqual([
      { of_user: found ?? '', of_preview: '', of_secret: found ?? null },
    ])
  }
})

test('a database with members whom a directory added notes whom outside of its proven domains to tell, and who left before', async () => {
  const { owner } = await makeDatabase()
  await (await makeRelease({}, '0044'))(owner, secrets)
  const [auditKey] = auditKeys(secrets)
  const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey, connections: 1 })
  onTestFinished(() => database.close())
  const id = newId()
  const trail = (actor: string) => ({ organizationId: id, actor })
  /** An account; a member if it has roles. */
  async function addUser(email: string, roles?: { byDirectory: 'member' | null; byHand: 'member' | null }) {
    const userId = newId()
    await database.asService(
      (sql) => sql`
        insert into users (id, issuer, subject, email, email_verified, name)
        values (${userId}, 'https://idp.example', ${email}, ${email}, true, 'Ann')`,
    )
    if (!roles) return
    await database.asOrg(
      id,
      (sql) => sql`
        insert into members (organization_id, id, user_id, role, directory_role, hand_role)
        values (${id}, ${newId()}, ${userId}, 'member', ${roles.byDirectory}, ${roles.byHand})`,
    )
  }
  await database.asOrg(id, async (sql) => {
    await sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`
    await sql`insert into directories (organization_id, id, name, type, domain) values (${id}, ${newId()}, 'Okta', 'okta', 'a.example')`
    for (const [domain, isProven] of [
      ['acme.example', true],
      ['pending.example', false],
    ] as const)
      await sql`
        insert into sign_in_domains (organization_id, id, domain, token, verified_at)
        values (${id}, ${newId()}, ${domain}, ${domain}, case when ${isProven} then now() end)`
  })
  await addUser('added@elsewhere.example', { byDirectory: 'member', byHand: null })
  await addUser('added@pending.example', { byDirectory: 'member', byHand: null })
  await addUser('own@acme.example', { byDirectory: 'member', byHand: null })
  await addUser('both@elsewhere.example', { byDirectory: 'member', byHand: 'member' })
  await addUser('back@elsewhere.example', { byDirectory: null, byHand: null })
  await addUser('left@elsewhere.example')
  await addUser('joined@acme.example')
  await database.asOrg(
    id,
    (sql) => sql`
      insert into sign_in_joins (organization_id, user_id)
      select ${id}, id from users where email in ('joined@acme.example', 'own@acme.example')`,
  )
  const past: [actor: string, action: string, email: string][] = [
    ['left@elsewhere.example', 'member.left', 'left@elsewhere.example'],
    ['admin@acme.example', 'member.removed', 'removed@elsewhere.example'],
    ['directory Okta', 'member.removed', 'gone@acme.example'],
    ['admin@acme.example', 'member.removed', 'back@elsewhere.example'],
  ]
  for (const [actor, action, email] of past)
    await database.asOrg(id, (sql) => recordAudit(sql, trail(actor), action, newId(), { email, role: 'member' }))

  await migrate(owner, secrets)
  const [due, former] = await database.asOrg(id, async (sql) => [
    await sql`select u.email from members m join users u on u.id = m.user_id where m.notice_due order by u.email`,
    await sql`select email, ended_by from former_members order by email`,
  ])
  expect(due).toEqual([{ email: 'added@elsewhere.example' }, { email: 'added@pending.example' }])
  expect(former).toEqual([
    { email: 'gone@acme.example', ended_by: 'directory' },
    { email: 'joined@acme.example', ended_by: 'administrator' },
    { email: 'left@elsewhere.example', ended_by: 'member' },
    { email: 'removed@elsewhere.example', ended_by: 'administrator' },
  ])
})
