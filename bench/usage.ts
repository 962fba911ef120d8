// Measures the cost of recording usage, and whether the sums keep reads fast while events grow a hundredfold.
//
//   node bench/usage.ts [--events=100000,1000000,10000000] [--seconds=3]
//
// It starts its own PostgreSQL in a temporary folder with the product's own stores, and removes it at the end. Each
// number of events has its own organization, with 90 days, 10 sites and 1 000 end users. The first organization's
// events are recorded the way the service does it, and its sums are compared with a recount. The others are loaded with
// SQL, with sums from the same recount. Reads use the service's own functions, compared with the same query on the
// events. All organizations are read in turn within each round, and growth is calculated within a round, so that other
// load on the machine cancels out.

import { randomInt } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { readConfig } from '../server/src/kernel/config/config.ts'
import type { OrgCaller } from '../server/src/kernel/foundation/caller.ts'
import type { Service } from '../server/src/kernel/foundation/service.ts'
import { systemClock } from '../server/src/kernel/lib/clock.ts'
import { newId } from '../server/src/kernel/lib/ids.ts'
import { createLog } from '../server/src/kernel/lib/log.ts'
import { openStores } from '../server/src/kernel/stores/stores.ts'
import { recordUsage, type UsageRecord } from '../server/src/plans/usage/record.ts'
import * as usage from '../server/src/plans/usage/usage.ts'

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
const sumRounds = 100
const eventRounds = 3
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
  is_estimated: false,
  cost_micro_usd: 1 + randomInt(10_000),
  model: 'demo-large',
  finish_reason: 'stop',
  created_at: new Date(moment).toISOString(),
})

// --- recording

/** Events per second. All events are of today, so that all writers update the same sums. */
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
  const ways: [string, () => Promise<number>][] = [
    ['one by one', () => recordUsage(service, inventEvent(tenant, Date.now()))],
    ['batches of 100', () => recordUsage(service, batch(100))],
    ['batches of 1 000', () => recordUsage(service, batch(1000))],
  ]
  console.log('| Recording | 1 writer, events/s | 2 writers, events/s |\n| --- | ---: | ---: |')
  for (const [name, write] of ways) {
    await write()
    const [one, two] = [await measureRate(1, write), await measureRate(2, write)]
    console.log(`| ${name} | ${format(one)} | ${format(two)} |`)
  }
}

// --- loading

const recount = {
  usage_site_days: `select organization_id, (created_at at time zone 'UTC')::date as day, site_id,
    count(*), sum(prompt_tokens)::bigint, sum(completion_tokens)::bigint, sum(cost_micro_usd)::bigint
    from usage_events where organization_id = $1 group by 1, 2, 3`,
  usage_model_days: `select organization_id, (created_at at time zone 'UTC')::date as day, model,
    count(*), sum(prompt_tokens)::bigint, sum(completion_tokens)::bigint, sum(cost_micro_usd)::bigint
    from usage_events where organization_id = $1 group by 1, 2, 3`,
  usage_end_user_spans: `select organization_id, usage_span_start((created_at at time zone 'UTC')::date, days) as day, end_user_id,
    count(*), sum(prompt_tokens)::bigint, sum(completion_tokens)::bigint, days::smallint, sum(cost_micro_usd)::bigint
    from usage_events cross join unnest('{1,8}'::int[]) days where organization_id = $1 group by 1, 2, 3, days`,
  usage_end_users: `select organization_id, end_user_id,
    count(*), sum(prompt_tokens)::bigint, sum(completion_tokens)::bigint, sum(cost_micro_usd)::bigint
    from usage_events where organization_id = $1 group by 1, 2`,
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

async function load(owner: pg.Client, tenant: Tenant, count: number): Promise<void> {
  await owner.query(
    `insert into usage_events (organization_id, id, end_user_id, site_id, prompt_tokens, completion_tokens,
                               cost_micro_usd, model, finish_reason, created_at)
     select $1, (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid,
            ($2::uuid[])[1 + floor(random() * ${endUserCount})::int], ($3::uuid[])[1 + floor(random() * ${siteCount})::int],
            1 + floor(random() * 2000), 1 + floor(random() * 500), 1 + floor(random() * 10000), 'demo-large', 'stop',
            to_timestamp($4::float8 / 1000) + floor(random() * ${days * dayMs}) * interval '1 millisecond'
     from generate_series(1, $5::bigint) n`,
    [tenant.id, tenant.endUsers, tenant.sites, firstMoment, count],
  )
  for (const [table, query] of Object.entries(recount)) await owner.query(`insert into ${table} ${query}`, [tenant.id])
}

/** Disables foreign keys, which the loaded data satisfies, and rebuilds indexes afterwards, which is faster. */
async function loadFast(owner: pg.Client, work: () => Promise<void>): Promise<void> {
  const index = `select indexdef as create from pg_indexes where indexname = 'usage_events_of_end_user'`
  const { rows } = await owner.query<{ create: string }>(index)
  await owner.query('set session_replication_role = replica')
  await owner.query('drop index usage_events_of_end_user')
  await work()
  await owner.query(rows[0]?.create ?? '')
  await owner.query('set session_replication_role = origin')
}

async function prepare(service: Recording, owner: pg.Client): Promise<Tenant[]> {
  const tenants: Tenant[] = []
  for (const size of sizes) tenants.push(await addTenant(owner, `reading-${size}`))
  const [first, ...others] = tenants
  if (first) await recordFirst(service, owner, first, sizes[0] ?? 0)
  await loadFast(owner, async () => {
    for (const [index, tenant] of others.entries()) await load(owner, tenant, sizes[index + 1] ?? 0)
  })
  await owner.query('vacuum analyze')
  return tenants
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
      name: 'all models, 90 days',
      fromSums: () => usage.listModelUsage(service, caller, { start_date, ...page }),
      fromEvents: `select model, ${totals} from usage_events where ${inRange} group by model order by tokens desc limit 50`,
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

async function timeOf(read: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await read()
  return performance.now() - started
}

const quantile = (values: number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN

/** Milliseconds, by round and organization. */
async function measureRounds(rounds: number, reads: (() => Promise<unknown>)[]): Promise<number[][]> {
  const measured: number[][] = []
  for (let round = 0; round < rounds; round += 1) {
    const times: number[] = []
    for (const read of reads) times.push(await timeOf(read))
    measured.push(times)
  }
  return measured
}

async function measureReads(service: Recording, owner: pg.Client): Promise<void> {
  const tenants = await prepare(service, owner)
  const questions = tenants.map((tenant) => questionsOf(service, tenant))
  console.log(`\n| Read | ${sizes.map((size) => `${format(size)} events | ratio`).join(' | ')} | growth (quartiles) |`)
  console.log(`| --- |${' ---: |'.repeat(2 * sizes.length + 1)}`)
  for (const [index, { name }] of (questions[0] ?? []).entries()) {
    const same = questions.map((ofTenant) => ofTenant[index] as Question)
    const reads = same.map(({ fromSums }) => fromSums)
    await measureRounds(10, reads)
    const sums = await measureRounds(sumRounds, reads)
    const events = await measureRounds(
      eventRounds,
      same.map(
        ({ fromEvents, values }) =>
          () =>
            owner.query(fromEvents, values),
      ),
    )
    const median = (measured: number[][], tenant: number) =>
      quantile(
        measured.map((times) => times[tenant] ?? Number.NaN),
        0.5,
      )
    const cells = sizes.map((_, tenant) => {
      const [one, other] = [median(sums, tenant), median(events, tenant)]
      return `${format(one)} ms / ${format(other)} ms | ${format(other / one)}`
    })
    const growths = sums.map((times) => (times.at(-1) ?? Number.NaN) / (times[0] ?? Number.NaN))
    const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(growths, share).toFixed(2))
    console.log(`| ${name} | ${cells.join(' | ')} | ${middle} (${low}–${high}) |`)
  }
}

const format = (value: number) =>
  value >= 100 ? Math.round(value).toLocaleString('en').replaceAll(',', ' ') : value.toFixed(value >= 10 ? 1 : 2)

const folder = mkdtempSync(join(tmpdir(), 'inlay-usage-'))
// If this runs as root, PostgreSQL runs as another user, which needs access.
chmodSync(folder, 0o755)
try {
  const config = readConfig({ INLAY_DATA_DIR: folder })
  const stores = await openStores(config, { clock: systemClock, log: createLog('silent'), claim: 'own' })
  const owner = new pg.Client(stores.owner)
  try {
    await owner.connect()
    const service = { database: stores.database, clock: systemClock }
    await measureRecording(service, await addTenant(owner, 'recording'))
    await measureReads(service, owner)
  } finally {
    await owner.end()
    await stores.close()
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
