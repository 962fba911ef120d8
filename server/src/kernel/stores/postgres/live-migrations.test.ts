import pg from 'pg'
import { parseIntoClientConfig } from 'pg-connection-string'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { type TestService, useTestService } from '../../../../test/harness.ts'
import { patience } from '../../../../test/processes.ts'
import { makeRelease } from '../../../../test/releases.ts'

/** Requests wait for a lock at most as long as a migration does, which is 2 seconds, and what a busy machine adds. */
const quicklyMs = 5_000

async function connect({ stores }: TestService, by: pg.ClientConfig = stores.owner): Promise<pg.Client> {
  const client = new pg.Client({ ...by, application_name: 'a reader' })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** A transaction that has read a table and stays open, as that of a dump or an analyst. */
async function startReader(app: TestService, table: string): Promise<pg.Client> {
  const reader = await connect(app)
  await reader.query('begin isolation level repeatable read')
  await reader.query(`select from ${table} limit 1`)
  return reader
}

/** Sends requests, one after the other, that read and write what most requests do. */
async function startTraffic(app: TestService) {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const answers: { request: string; status: number; ms: number }[] = []
  let isOver = false
  const send = async (method: string, path: string, body?: object) => {
    const begunAt = performance.now()
    const { status } = await app.request(method, path, { token, ...(body && { body }) })
    answers.push({ request: `${method} ${path}`, status, ms: performance.now() - begunAt })
  }
  const running = (async () => {
    while (!isOver) {
      await send('POST', '/publishable-keys', { name: 'Shop', allowed_origins: ['https://shop.example'] })
      await send('GET', '/budgets')
      await send('GET', '/publishable-keys')
    }
  })()
  /** Waits until this many more requests have been answered. */
  const pass = async (count: number) => {
    const wanted = answers.length + count
    await vi.waitFor(() => expect(answers.length).toBeGreaterThanOrEqual(wanted), { timeout: patience.timeout })
  }
  async function stop() {
    isOver = true
    await running
    return answers
  }
  onTestFinished(async () => void (await stop()))
  return { pass, stop }
}

async function expectAllAnswered(traffic: Awaited<ReturnType<typeof startTraffic>>): Promise<void> {
  const slowOrFailed = (await traffic.stop()).filter(({ status, ms }) => status !== 200 || ms > quicklyMs)
  expect(slowOrFailed).toEqual([])
}

const migrateWith = async (app: TestService, migrations: Record<string, string>, options = {}) =>
  (await makeRelease(migrations))(app.stores.owner, app.stores.secrets, { patienceMs: 60_000, ...options })

const newTable = `create table notes (
  organization_id uuid references organizations (id), id uuid, primary key (organization_id, id))`

/** Waits until a migration waits for a lock, then calls `then` with the ID of its process. */
async function whenBlocked(client: pg.Client): Promise<number> {
  return vi.waitFor(
    async () => {
      const { rows } = await client.query<{ pid: number }>(`
        select pid from pg_stat_activity
        where application_name = 'inlay migrate' and datname = current_database() and wait_event_type = 'Lock'`)
      expect(rows).toHaveLength(1)
      return rows[0]?.pid as number
    },
    { interval: 20, timeout: patience.timeout },
  )
}

describe('under traffic, a migration', () => {
  test('of other tables doesn’t wait for a reader, and requests don’t wait for it', async () => {
    const app = await useTestService()
    await startReader(app, 'feedback')
    const traffic = await startTraffic(app)
    await traffic.pass(10)
    expect(await migrateWith(app, { '0900_notes.sql': newTable })).toEqual({ applied: ['0900_notes.sql'] })
    await traffic.pass(10)
    await expectAllAnswered(traffic)
  })

  test('of a table that a reader holds lets requests pass, and ends by itself after the reader', async () => {
    const app = await useTestService()
    const reader = await startReader(app, 'publishable_keys')
    const traffic = await startTraffic(app)
    await traffic.pass(10)
    const waits: string[] = []
    async function onWait(text: string) {
      waits.push(text)
      if (waits.length !== 2) return
      await traffic.pass(10)
      await reader.query('rollback')
    }
    const sql = 'alter table publishable_keys add column note text'
    const { applied } = await migrateWith(
      app,
      { '0900_note.sql': sql },
      { onWait: (text: string) => void onWait(text) },
    )
    expect(applied).toEqual(['0900_note.sql'])
    expect(waits.length).toBeGreaterThanOrEqual(2)
    await traffic.pass(10)
    await expectAllAnswered(traffic)
  })

  test('that can’t get a lock fails after a limited time, and names the session that has it', async () => {
    const app = await useTestService()
    const reader = await startReader(app, 'publishable_keys')
    const { rows } = await reader.query('select pg_backend_pid() as pid')
    const sql = 'alter table publishable_keys add column note text'
    await expect(migrateWith(app, { '0900_note.sql': sql }, { patienceMs: 0 })).rejects.toMatchObject({
      name: 'MigrationFailed',
      message: expect.stringMatching(
        new RegExp(
          `^0900_note.sql: canceling statement due to lock timeout; blocked by process ${rows[0].pid} of \\w+ \\(a reader\\)`,
        ),
      ),
    })
  })

  test('builds an index without stopping writes, and builds it again if it was interrupted', async () => {
    const app = await useTestService()
    const reader = await startReader(app, 'publishable_keys')
    const traffic = await startTraffic(app)
    const sql = `-- not in a transaction
drop index concurrently if exists keys_by_name;
create index concurrently keys_by_name on publishable_keys (organization_id, name);
`
    const interrupted = migrateWith(app, { '0900_index.sql': sql }).catch((error: Error) => error)
    const client = await connect(app)
    const process = await whenBlocked(client)
    await traffic.pass(10)
    await client.query('select pg_terminate_backend($1, 10000)', [process])
    expect(await interrupted).toMatchObject({ name: 'MigrationFailed' })
    const isValid = async () =>
      (await client.query(`select indisvalid from pg_index where indexrelid = 'keys_by_name'::regclass`)).rows[0]
    expect(await isValid()).toEqual({ indisvalid: false })
    await reader.query('rollback')
    expect(await migrateWith(app, { '0900_index.sql': sql })).toEqual({ applied: ['0900_index.sql'] })
    expect(await isValid()).toEqual({ indisvalid: true })
    await expectAllAnswered(traffic)
  })
})

test('a node of this version works beside a later one’s column, first step of a rename, and index', async () => {
  const app = await useTestService()
  const { database = '' } = app.stores.owner
  const superuser = await connect(
    app,
    parseIntoClientConfig(inject('engines').superuserUrl.replace('DATABASE', database)),
  )
  await superuser.query(`
    insert into publishable_keys select (jsonb_populate_record(k, jsonb_build_object('id', gen_random_uuid(), 'key_hash', gen_random_uuid()))).*
    from publishable_keys k, generate_series(1, 20000)`)
  const traffic = await startTraffic(app)
  await traffic.pass(10)
  const { applied } = await migrateWith(app, {
    '0900_column.sql': `alter table publishable_keys add column note text not null default ''`,
    '0901_rename.sql': `
      alter table publishable_keys add column label text;
      create function set_label() returns trigger language plpgsql as $$
      begin
        -- A node of the earlier version only writes the name.
        if tg_op = 'INSERT' then new.label := coalesce(new.label, new.name);
        elsif new.label is not distinct from old.label then new.label := new.name;
        end if;
        return new;
      end $$;
      create trigger set_label before insert or update on publishable_keys for each row execute function set_label();`,
    '0902_index.sql': `-- not in a transaction
drop index concurrently if exists keys_by_label;
create index concurrently keys_by_label on publishable_keys (organization_id, label);
`,
  })
  expect(applied).toEqual(['0900_column.sql', '0901_rename.sql', '0902_index.sql'])
  await traffic.pass(30)
  await expectAllAnswered(traffic)
  const { rows } = await superuser.query('select name, label from publishable_keys order by created_at desc limit 1')
  expect(rows).toEqual([{ name: 'Shop', label: 'Shop' }])
})
