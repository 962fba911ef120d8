import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import pg from 'pg'
import { parseIntoClientConfig } from 'pg-connection-string'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { signInWithPassword } from '../src/accounts/sign-in/sign-in.ts'
import { newId } from '../src/kernel/lib/ids.ts'
import { createSecrets } from '../src/kernel/lib/secrets.ts'
import { canonicalEmail } from '../src/kernel/net/email-addresses.ts'
import { recordAudit } from '../src/kernel/stores/audit/audit.ts'
import { auditKeys } from '../src/kernel/stores/audit/chain.ts'
import { type Database, openDatabase } from '../src/kernel/stores/database.ts'
import { maintenanceConnection, migrate, serviceConnection } from '../src/kernel/stores/postgres/migrations.ts'
import { verifyAuditChain } from '../src/organizations/audit-events/verify.ts'
import { findTrustedIssuer, type IdpType } from '../src/visitors/identity-provider/issuers.ts'
import { testSecret } from '../test/engines/engines.ts'
import { makeConfig, startServiceOn } from '../test/harness.ts'
import { shipped } from '../test/releases.ts'
import { applyFormer, convert, formerMigrations } from './convert.ts'

const secrets = createSecrets([testSecret])
const dump = gunzipSync(readFileSync(join(import.meta.dirname, '5d624c9.sql.gz'))).toString()

/** Every row of the schema's description in PostgreSQL's catalog, except the months and the owner's name. */
const catalogue = `
  with tables as (
    select oid, relname::text as name, relkind::text as kind, relrowsecurity, relforcerowsecurity, reloptions, relowner, relacl
    from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'S') and not relispartition
  )
  select concat_ws(' | ', 'table', name, kind, relrowsecurity, relforcerowsecurity, reloptions, pg_get_partkeydef(oid)) as line
    from tables
  union all
  select concat_ws(' | ', 'column', name, row_number() over (partition by a.attrelid order by attnum), attname,
      format_type(atttypid, atttypmod), attnotnull, attgenerated, pg_get_expr(adbin, adrelid), attcollation::regcollation,
      attstorage)
    from tables t join pg_attribute a on attrelid = t.oid left join pg_attrdef on adrelid = t.oid and adnum = attnum
    where attnum > 0 and not attisdropped
  union all
  -- PostgreSQL 18 also lists columns that are not null. A check that existing rows weren't checked for applies to new ones.
  select concat_ws(' | ', 'constraint', name, conname, replace(pg_get_constraintdef(k.oid), ' NOT VALID', ''))
    from tables t join pg_constraint k on conrelid = t.oid where contype <> 'n'
  union all
  select concat_ws(' | ', 'index', name, pg_get_indexdef(indexrelid), indisvalid)
    from tables t join pg_index on indrelid = t.oid
  union all
  select concat_ws(' | ', 'trigger', name, pg_get_triggerdef(g.oid))
    from tables t join pg_trigger g on tgrelid = t.oid where not tgisinternal
  union all
  select concat_ws(' | ', 'policy', name, polname, polcmd, polpermissive,
      array(select case role when 0 then 'public' when relowner then 'owner' else role::regrole::text end from unnest(polroles) role),
      pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
    from tables t join pg_policy on polrelid = t.oid
  union all
  select concat_ws(' | ', 'privilege', name, privilege_type, replace(grantee::regrole::text, current_database(), ''))
    from tables t, aclexplode(relacl) where grantee <> relowner
  union all
  select concat_ws(' | ', 'function', pg_get_functiondef(p.oid), array(
      select replace(case grantee when 0 then 'public' else grantee::regrole::text end, current_database(), '')
      from aclexplode(proacl) where grantee <> proowner order by 1))
    from pg_proc p where pronamespace = 'public'::regnamespace
  union all
  select concat_ws(' | ', 'type', typname, typtype)
    from pg_type where typnamespace = 'public'::regnamespace and typtype <> 'c' and typelem = 0
  union all
  select concat_ws(' | ', 'partitioned', inhparent::regclass, count(*) filter (where relname like '%_earlier'),
      max(relname) filter (where relname not like '%_earlier'))
    from pg_inherits join pg_class c on c.oid = inhrelid where relkind = 'r' group by inhparent
  order by 1`

async function readCatalogue(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ line: string }>(catalogue)
  return rows.map(({ line }) => line)
}

async function connect(connection: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

async function makeDatabase() {
  const { config, remove } = await makeConfig({}, 'bare')
  const owner = parseIntoClientConfig(config.databaseUrl ?? '')
  const superuser = parseIntoClientConfig(inject('engines').superuserUrl.replace('DATABASE', owner.database ?? ''))
  return { config, remove, owner, superuser }
}

/** A database of commit 5d624c9 with the demo's organizations, and the former migrations up to a number. */
async function loadFormer(owner: pg.ClientConfig, newest = '0040'): Promise<void> {
  const client = new pg.Client(owner)
  await client.connect()
  await client.query(dump)
  await client.query('reset all')
  for (const migration of formerMigrations.filter(({ name }) => name.slice(0, 4) <= newest)) {
    await client.query('begin')
    await applyFormer(client, migration)
    await client.query('insert into migrations (name, checksum) values ($1, $2)', [migration.name, migration.checksum])
    await client.query('commit')
  }
  await client.end()
}

function open(connection: pg.ClientConfig): Database {
  const [auditKey] = auditKeys(secrets)
  const database = openDatabase({ connection, auditKey, connections: 1 })
  onTestFinished(() => database.close())
  return database
}

/** A former database without rows, in which a role without privileges of the owner works as the service. */
async function makeFormer(newest: string) {
  const { remove, owner } = await makeDatabase()
  onTestFinished(remove)
  await loadFormer(owner, newest)
  const client = await connect(owner)
  await client.query('truncate organizations, users cascade')
  const service = `${owner.database}_former`
  await client.query(`create role ${service} login password 'plain'`)
  await client.query(`grant all on all tables in schema public to ${service}`)
  const convertAll = async () => {
    await convert(owner, secrets)
    return open(serviceConnection(owner, secrets))
  }
  return { client, owner, database: open({ ...owner, user: service, password: 'plain' }), convertAll }
}

async function readFresh(): Promise<string[]> {
  const { remove, owner } = await makeDatabase()
  onTestFinished(remove)
  await migrate(owner, secrets)
  return readCatalogue(await connect(owner))
}

/** The number of rows of every table that isn't a partition. */
async function countRows(client: pg.Client): Promise<Record<string, number>> {
  const { rows } = await client.query<{ name: string }>(
    `select relname as name from pg_class
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`,
  )
  const counts: Record<string, number> = {}
  for (const { name } of rows) {
    const { rows } = await client.query<{ count: number }>(`select count(*)::int from ${pg.escapeIdentifier(name)}`)
    counts[name] = rows[0]?.count ?? 0
  }
  return counts
}

describe('the conversion of a database of commit 5d624c9', () => {
  test('keeps its rows, sums and audit trails, and the server starts on it', async () => {
    const { config, remove, owner, superuser } = await makeDatabase()
    onTestFinished(remove)
    await loadFormer(owner)
    const client = await connect(superuser)
    const sums = () =>
      client.query(`
        select
          (select jsonb_build_array(sum(prompt_tokens), sum(completion_tokens), sum(cost_micro_usd)) from usage_events) as events,
          (select jsonb_build_array(sum(requests), sum(prompt_tokens), sum(cost_micro_usd)) from usage_site_days) as sites,
          (select jsonb_build_array(sum(requests), sum(prompt_tokens), sum(cost_micro_usd)) from usage_end_users) as end_users,
          (select jsonb_agg(to_jsonb(p) order by subject, period, starts_on) from budget_periods p) as budgets`)
    const [before, sumsBefore] = [await countRows(client), (await sums()).rows]
    const { rows: calls } = await client.query('select sum(count)::int as count from tool_call_batches')
    const { applied } = await convert(owner, secrets)
    expect(applied).toEqual(formerMigrations.map(({ name }) => name))

    const { audit_verifications, jobs, list_totals, migrations, ...after } = await countRows(client)
    const { departures } = before
    const former = ['migrations', 'tool_call_batches', 'tool_call_users', 'departures', 'sign_in_joins', 'billing_work']
    const kept = Object.fromEntries(Object.entries(before).filter(([name]) => !former.includes(name)))
    expect(after).toMatchObject({
      ...kept,
      tool_call_records: calls[0].count,
      // Two have a caller that no end user is.
      tool_call_contents: 1,
      // Those who joined are still members.
      former_members: 0,
      ...{ usage_rankings: 0, usage_ranked_end_users: 0 },
      ...{ confirmed_browsers: 0, frame_keys: 0, frame_sign_in: 0, directory_former_addresses: 0 },
      step_texts: 2,
    })
    expect(before).toMatchObject({
      sign_in_joins: 2,
      tool_call_batches: 5,
      organizations: 2,
      usage_events: 424,
      threads: 16,
      audit_events: 29,
    })
    expect((await sums()).rows).toEqual(sumsBefore)
    expect({ audit_verifications, migrations }).toEqual({ audit_verifications: 2, migrations: shipped.length })
    const { rows: kinds } = await client.query('select kind, count(*)::int from jobs group by kind order by kind')
    expect(Object.fromEntries(kinds.map(({ kind, count }) => [kind, count]))).toMatchObject({
      ...{ audit_verification: 2, budget_expiry: 2, code_sync: 2, access_cleanup: departures, mail: 1 },
    })
    const { rows: totals } = await client.query(
      `select list, sum(items)::int as items from list_totals
       where not starts_with(list, 'end_users/') group by list order by list`,
    )
    const { rows: issuers } = await client.query(`
      select substr(list, length('end_users/') + 1) as issuer, sum(items)::int as items from list_totals
      where starts_with(list, 'end_users/') group by list order by 1`)
    const { rows: counted } = await client.query(`
      select issuer, count(*)::int as items from end_users where preview_user_id is null and merged_into is null
      group by issuer order by 1`)
    expect(issuers).toEqual(counted)
    expect(totals).toEqual([
      { list: 'end_users', items: kept.end_users },
      { list: 'threads/archived', items: 4 },
      { list: 'threads/regular', items: 12 },
    ])
    expect(list_totals).toBeGreaterThan(0)

    const app = await startServiceOn(config, async () => undefined)
    onTestFinished(() => app.close())
    for (const [slug, length] of [
      ['demo', 19],
      ['other', 10],
    ] as const) {
      const id = await app.organization(slug)
      expect(await verifyAuditChain(app.stores, id), slug).toMatchObject({ length })
      expect((await verifyAuditChain(app.stores, id)).broken, slug).toBeUndefined()
    }
    expect(
      await signInWithPassword(app.service, {
        ...{ email: 'admin@demo.test', password: 'correct horse battery', address: '203.0.113.7' },
      }),
    ).toMatchObject({ is: 'signed in' })
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { status, body } = await app.request('GET', '/publishable-keys', { token })
    const names = body.keys.map(({ name }: { name: string }) => name)
    expect({ status, names }).toEqual({ status: 200, names: expect.arrayContaining(['Key 0', 'Key 1', 'Key 2']) })
  })

  // 0053 is the last one before jobs, and 0056 before partitions.
  test.each(['0040', '0053', '0056', '0067'])('up to %s ends with the schema of a new one', async (newest) => {
    const { remove, owner } = await makeDatabase()
    onTestFinished(remove)
    await loadFormer(owner, newest)
    await convert(owner, secrets)
    expect(await readCatalogue(await connect(owner))).toEqual(await readFresh())
  })
})

describe('a database from before 0.1.0', () => {
  test('keeps the server from starting, which says what to run', async () => {
    const { remove, owner } = await makeDatabase()
    onTestFinished(remove)
    await loadFormer(owner)
    await expect(migrate(owner, secrets)).rejects.toMatchObject({
      name: 'MigrationFailed',
      message:
        'The database is from before 0.1.0. Stop every server, back up the database, and run `npx inlay convert` once: docs/migrations.md',
    })
  })

  test('is converted whatever numbers its commit gave to the migrations', async () => {
    const { owner, client, convertAll } = await makeFormer('0049')
    await client.query(`update migrations set name = replace(name, '0044_issuers', '0043_issuers')`)
    await client.query(`update migrations set name = replace(name, '0049_tool', '0046_tool')`)
    await convertAll()
    expect(await migrate(owner, secrets)).toEqual({ applied: [] })
  })

  test.each([
    [
      `delete from migrations where name = '0040_ended_clients.sql'`,
      /^The database is too old to be converted\. Start the server of commit 5d624c9/,
    ],
    [
      `insert into migrations (name, checksum) values ('0900_later.sql', '')`,
      /^The database is newer than this release: it includes 0900_later\.sql\.$/,
    ],
    [`delete from migrations where name = '0001_foundation.sql'`, /^There is nothing to convert/],
  ])('stays as it is if %s', async (sql, message) => {
    const { owner, client } = await makeFormer('0040')
    await client.query(sql)
    const before = await readCatalogue(client)
    await expect(convert(owner, secrets)).rejects.toMatchObject({
      name: 'MigrationFailed',
      message: expect.stringMatching(message),
    })
    expect(await readCatalogue(client)).toEqual(before)
  })

  test('stays as it is if a migration fails, and is converted once that is fixed', async () => {
    const { owner, client, convertAll } = await makeFormer('0040')
    await client.query('create table jobs (id int)')
    const before = await readCatalogue(client)
    await expect(convert(owner, secrets)).rejects.toMatchObject({
      name: 'MigrationFailed',
      message: '0054_jobs.sql: relation "jobs" already exists',
    })
    expect(await readCatalogue(client)).toEqual(before)
    await client.query('drop table jobs')
    await convertAll()
  })

  test('isn’t converted while a server uses it, with any secret and either role', async () => {
    const { owner, convertAll, client } = await makeFormer('0040')
    const former = createSecrets([Buffer.alloc(32, 7).toString('base64')])
    for (const connection of [
      serviceConnection(owner, secrets),
      serviceConnection(owner, former),
      maintenanceConnection(owner, secrets),
    ]) {
      const { user = '', password } = connection
      await client.query(`create role ${user} login password ${pg.escapeLiteral(String(password))}`)
      const server = new pg.Client(connection)
      await server.connect()
      await expect(convert(owner, secrets), user).rejects.toThrow(
        'A server is using the database. Stop every server, and try again.',
      )
      await server.end()
      await client.query(`drop role ${user}`)
    }
    await convertAll()
  })
})

describe('the conversion', () => {
  test('to a row per tool call keeps every record of the batches, and no address', async () => {
    const { client, database, convertAll } = await makeFormer('0048')
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
    const converted = await convertAll()

    for (const id of organizations) {
      const rows = await converted.asOrg(id, (sql) => sql`select * from tool_call_records order by at`)
      const expected = calls.map(({ user_email, at, approval_at, tool, ...call }) => ({
        ...{ ...call, organization_id: id, tool: tool.replace('\0', ''), at: new Date(at).toISOString() },
        approval_at: approval_at && new Date(approval_at).toISOString(),
      }))
      expect(rows).toEqual(expected)
    }
    const contents = await Promise.all(
      organizations.map((id) => converted.asOrg(id, (sql) => sql`select call_id, end_user_id from tool_call_contents`)),
    )
    expect(contents, 'without an end user to erase them, they are deleted').toEqual([
      [{ call_id: calls[1]?.id, end_user_id: ann }],
      [],
    ])
    expect(await countRows(client)).not.toHaveProperty('tool_call_batches')
  })

  test('of contents gives them to who made the calls, and to no end user who merely states the address', async () => {
    const { database, convertAll } = await makeFormer('0049')
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
    const converted = await convertAll()
    const rows = await converted.asOrg(
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

  test('a database with international domains gets their addresses in the form in which they are compared', async () => {
    const { client, database, convertAll } = await makeFormer('0040')
    const domains = ['bücher.example', '例え.テスト', 'münchen-ost.de', 'пример.рф', 'faß.example', 'acme.example']
    for (const domain of domains) {
      await client.query(
        `insert into users (id, issuer, subject, email, name) values ('${newId()}', 'local', $1, $1, 'Ann')`,
        [`ánn@${domain}`],
      )
    }
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
    const converted = await convertAll()
    const { rows } = await client.query('select subject, email from users order by id')
    const emails = domains.map((domain) => canonicalEmail(`ánn@${domain}`))
    expect(rows).toEqual(emails.map((email) => ({ subject: email, email })))
    const ofOrganization = await converted.asOrg(id, (sql) =>
      Promise.all([
        sql<{ email: string }>`select email from directory_users`,
        sql<{ email: string }>`select email from directory_leavers`,
        sql<{ email: string }>`select email from end_users`,
      ]),
    )
    for (const found of ofOrganization) expect(found.map(({ email }) => email).toSorted()).toEqual(emails.toSorted())
  })

  test('a database without issuers gives end users and connectors the one that is configured', async () => {
    const { database, convertAll } = await makeFormer('0043')
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
    const converted = await convertAll()
    for (const [at, [idp_type, idp_domain, idp_issuer = null]] of settings.entries()) {
      const found = findTrustedIssuer(
        { idp_type, idp_domain, idp_issuer, allowed_audiences: null },
        'production',
      )?.issuer
      const rows = await converted.asOrg(
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
    const { database, convertAll } = await makeFormer('0044')
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

    const converted = await convertAll()
    const [due, former] = await converted.asOrg(id, async (sql) => [
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

  test('a database with work at the billing provider gets it as jobs, and reads what was read before again', async () => {
    const { database, convertAll } = await makeFormer('0065')
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
    const converted = await convertAll()
    const rows = await converted.asWorker(
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
})
