// What does it cost to record usage, and do the sums keep reads flat while the events grow a hundredfold?
//
//   node bench/usage.ts [--events=100000,1000000,10000000] [--seconds=3]
//
// It starts its own PostgreSQL in a temporary folder through the product's own stores, and removes it at the end. The
// events are one organization's, over 90 days, 10 sites and 1 000 end users. The first lot is recorded as the service
// does it, and the sums that this left are compared with a recount; the rest is loaded by SQL with sums from the same
// recount. Reads are the service's own functions, next to the same question put to the events.

import { randomInt } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import type { OrgCaller } from '../server/src/access.ts'
import { readConfig } from '../server/src/config.ts'
import { systemClock } from '../server/src/lib/clock.ts'
import { newId } from '../server/src/lib/ids.ts'
import { createLog } from '../server/src/lib/log.ts'
import type { Service } from '../server/src/service.ts'
import { openStores } from '../server/src/stores/stores.ts'
import { recordUsage, type UsageRecord } from '../server/src/usage/record.ts'
import { createUsageRecorder } from '../server/src/usage/recorder.ts'
import * as usage from '../server/src/usage/usage.ts'

const { values: options } = parseArgs({
  options: {
    events: { type: 'string', default: '100000,1000000,10000000' },
    seconds: { type: 'string', default: '3' },
  },
})
const sizes = options.events.split(',').map(Number)
const seconds = Number(options.seconds)
const dayMs = 24 * 60 * 60 * 1000
const days = 90
const siteCount = 10
const endUserCount = 1000
const start_date = new Date(Date.now() - (days - 1) * dayMs).toISOString().slice(0, 10)
const firstMoment = Date.parse(start_date)

type Recording = Pick<Service, 'database' | 'clock'>

interface Tenant {
  id: string
  sites: string[]
  endUsers: string[]
}

async function addTenant(owner: pg.Client, slug: string): Promise<Tenant> {
  const tenant = {
    id: newId(),
    sites: Array.from({ length: siteCount }, newId),
    endUsers: Array.from({ length: endUserCount }, newId),
  }
  await owner.query('insert into organizations (id, name, slug) values ($1, $2, $2)', [tenant.id, slug])
  await owner.query(
    `insert into sites (organization_id, id, origin, name)
     select $1, id, 'https://' || id || '.example.com', 'Site' from unnest($2::uuid[]) id`,
    [tenant.id, tenant.sites],
  )
  await owner.query(
    'insert into end_users (organization_id, id, external_id) select $1, id, id from unnest($2::uuid[]) id',
    [tenant.id, tenant.endUsers],
  )
  return tenant
}

const inventEvent = ({ id, sites, endUsers }: Tenant, moment: number): UsageRecord => ({
  id: newId(),
  organization_id: id,
  end_user_id: endUsers[randomInt(endUserCount)] as string,
  site_id: sites[randomInt(siteCount)] as string,
  thread_id: null,
  prompt_tokens: 1 + randomInt(2000),
  completion_tokens: 1 + randomInt(500),
  model: 'demo-large',
  finish_reason: 'stop',
  created_at: new Date(moment).toISOString(),
})

// --- recording

/** Events per second; today's, so that all writers meet at the same sums. */
async function measureRate(writers: number, write: () => Promise<number>): Promise<number> {
  const started = performance.now()
  const end = started + seconds * 1000
  const counts = await Promise.all(
    Array.from({ length: writers }, async () => {
      let events = 0
      while (performance.now() < end) events += await write()
      return events
    }),
  )
  return counts.reduce((total, count) => total + count) / ((performance.now() - started) / 1000)
}

async function measureRecording(service: Recording, tenant: Tenant): Promise<void> {
  const batch = (size: number) => Array.from({ length: size }, () => inventEvent(tenant, Date.now()))
  const recorder = createUsageRecorder(service)
  const ways: [string, () => Promise<number>][] = [
    ['one by one', () => recordUsage(service, inventEvent(tenant, Date.now()))],
    ['batches of 100', () => recordUsage(service, batch(100))],
    ['batches of 1 000', () => recordUsage(service, batch(1000))],
    ['recorder, 1 000 at a time', async () => (await Promise.all(batch(1000).map(recorder.record))).length],
  ]
  console.log('| Recording | 1 writer, events/s | 2 writers, events/s |\n| --- | ---: | ---: |')
  for (const [name, write] of ways) {
    await write()
    const [one, two] = [await measureRate(1, write), await measureRate(2, write)]
    console.log(`| ${name} | ${format(one)} | ${format(two)} |`)
  }
  await recorder.close()
}

// --- loading

const recount = {
  usage_site_days: `select organization_id, (created_at at time zone 'UTC')::date as day, site_id,
    count(*), sum(prompt_tokens)::bigint, sum(completion_tokens)::bigint from usage_events where organization_id = $1 group by 1, 2, 3`,
  usage_end_user_days: `select organization_id, (created_at at time zone 'UTC')::date as day, end_user_id,
    count(*), sum(prompt_tokens)::bigint, sum(completion_tokens)::bigint from usage_events where organization_id = $1 group by 1, 2, 3`,
  usage_end_users: `select organization_id, end_user_id,
    count(*), sum(prompt_tokens)::bigint, sum(completion_tokens)::bigint from usage_events where organization_id = $1 group by 1, 2`,
}

async function recordFirst(service: Recording, owner: pg.Client, tenant: Tenant, count: number): Promise<void> {
  for (let done = 0; done < count; done += 1000) {
    const moment = () => firstMoment + randomInt(days * dayMs)
    await recordUsage(
      service,
      Array.from({ length: Math.min(1000, count - done) }, () => inventEvent(tenant, moment())),
    )
  }
  for (const [table, query] of Object.entries(recount)) {
    const kept = `select * from ${table} where organization_id = $1`
    const wrong = await owner.query(`(${kept} except ${query}) union all (${query} except ${kept})`, [tenant.id])
    if (wrong.rowCount) throw new Error(`${table} differs from a recount in ${wrong.rowCount} rows`)
  }
}

async function loadUpTo(owner: pg.Client, tenant: Tenant, from: number, to: number): Promise<void> {
  // Foreign keys are triggers, and what is loaded here fits them; an index is built faster than it grows.
  await owner.query('set session_replication_role = replica')
  const index = `select indexdef as create from pg_indexes where indexname = 'usage_events_of_end_user'`
  const { rows } = await owner.query<{ create: string }>(index)
  await owner.query('drop index usage_events_of_end_user')
  await owner.query(
    `insert into usage_events (organization_id, id, end_user_id, site_id, prompt_tokens, completion_tokens, model,
                               finish_reason, created_at)
     select $1, (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid, ($2::uuid[])[1 + floor(random() * ${endUserCount})::int],
            ($3::uuid[])[1 + floor(random() * ${siteCount})::int], 1 + floor(random() * 2000), 1 + floor(random() * 500), 'demo-large',
            'stop', to_timestamp($4::float8 / 1000) + random() * interval '${days} days' - interval '1 millisecond' * 0.5
     from generate_series($5::bigint, $6::bigint) n`,
    [tenant.id, tenant.endUsers, tenant.sites, firstMoment + 1, from + 1, to],
  )
  await owner.query(rows[0]?.create ?? '')
  for (const [table, query] of Object.entries(recount)) {
    await owner.query(`delete from ${table} where organization_id = $1`, [tenant.id])
    await owner.query(`insert into ${table} ${query}`, [tenant.id])
  }
  await owner.query('set session_replication_role = origin')
}

// --- reading

interface Question {
  name: string
  fromSums: () => Promise<unknown>
  fromEvents: string
  values: unknown[]
}

function questionsOf(service: Recording, tenant: Tenant): Question[] {
  const caller = { organization: { id: tenant.id } } as OrgCaller
  const page = { limit: 50, offset: 0 }
  const [site = '', endUser = ''] = [tenant.sites[0], tenant.endUsers[0]]
  const inRange = 'organization_id = $1 and created_at >= $2'
  const range = [tenant.id, start_date]
  const totals =
    'count(*), sum(prompt_tokens), sum(completion_tokens), sum(prompt_tokens + completion_tokens) as tokens'
  const daily = `select (created_at at time zone 'UTC')::date as day, ${totals} from usage_events where ${inRange}`
  return [
    {
      name: 'daily, 90 days',
      fromSums: () => usage.getDailyUsage(service, caller, { start_date }),
      fromEvents: `${daily} group by day order by day`,
      values: range,
    },
    {
      name: 'daily of one site, 90 days',
      fromSums: () => usage.getDailyUsage(service, caller, { start_date, site_id: site }),
      fromEvents: `${daily} and site_id = $3 group by day order by day`,
      values: [...range, site],
    },
    {
      name: 'all sites, 90 days',
      fromSums: () => usage.listSiteUsage(service, caller, { start_date, ...page }),
      fromEvents: `select site_id, ${totals} from usage_events where ${inRange} group by site_id order by tokens desc limit 50`,
      values: range,
    },
    {
      name: 'all end users, 90 days, first page',
      fromSums: () => usage.listEndUserUsage(service, caller, { start_date, ...page }),
      fromEvents: `select end_user_id, ${totals} from usage_events where ${inRange} group by end_user_id order by tokens desc limit 50`,
      values: range,
    },
    {
      name: 'one end user’s stats',
      fromSums: () => usage.getEndUserStats(service, caller, { end_user_id: endUser }),
      fromEvents: `select ${totals} from usage_events where organization_id = $1 and end_user_id = $2`,
      values: [tenant.id, endUser],
    },
  ]
}

/** Median in milliseconds: at least three runs, then as many as fit. */
async function measureRead(read: () => Promise<unknown>, most: number): Promise<number> {
  await read()
  const times: number[] = []
  const end = performance.now() + seconds * 1000
  while (times.length < 3 || (times.length < most && performance.now() < end)) {
    const started = performance.now()
    await read()
    times.push(performance.now() - started)
  }
  return times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] as number
}

async function measureReads(service: Recording, owner: pg.Client, tenant: Tenant): Promise<void> {
  const questions = questionsOf(service, tenant)
  const fromSums: number[][] = questions.map(() => [])
  console.log(`\n| Read | ${sizes.map((size) => `${format(size)} events | ratio`).join(' | ')} | growth |`)
  const rows = questions.map(({ name }) => [name])
  let loaded = 0
  for (const size of sizes) {
    if (loaded === 0) await recordFirst(service, owner, tenant, size)
    else await loadUpTo(owner, tenant, loaded, size)
    loaded = size
    await owner.query('vacuum analyze')
    for (const [index, { fromSums: read, fromEvents, values }] of questions.entries()) {
      const sums = await measureRead(read, 200)
      const events = await measureRead(() => owner.query(fromEvents, values), 20)
      fromSums[index]?.push(sums)
      rows[index]?.push(`${format(sums)} ms / ${format(events)} ms`, `${format(events / sums)}`)
    }
  }
  console.log(`| --- |${' ---: |'.repeat(2 * sizes.length + 1)}`)
  for (const [index, row] of rows.entries()) {
    const [first = 1, last = 1] = [fromSums[index]?.at(0), fromSums[index]?.at(-1)]
    console.log(`| ${row.join(' | ')} | ${format(last / first)} |`)
  }
}

const format = (value: number) =>
  value >= 100 ? Math.round(value).toLocaleString('en').replaceAll(',', ' ') : value.toFixed(value >= 10 ? 1 : 2)

const folder = mkdtempSync(join(tmpdir(), 'inlay-usage-'))
// PostgreSQL runs as another user when this runs as root.
chmodSync(folder, 0o755)
try {
  const config = readConfig({ INLAY_DATA_DIR: folder })
  const stores = await openStores(config, { clock: systemClock, log: createLog('silent'), claim: 'own' })
  const owner = new pg.Client(stores.owner)
  try {
    await owner.connect()
    const service = { database: stores.database, clock: systemClock }
    await measureRecording(service, await addTenant(owner, 'recording'))
    await measureReads(service, owner, await addTenant(owner, 'reading'))
  } finally {
    await owner.end()
    await stores.close()
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
