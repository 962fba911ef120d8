// Measures the job queue: jobs per minute, the delay of an organization behind another's backlog, and idle transactions.
//   DATABASE_URL=postgresql://… node bench/jobs.ts [--jobs=10000] [--backlog=20000]
// Without DATABASE_URL, it starts the embedded PostgreSQL in a temporary folder.

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { readConfig } from '../server/src/kernel/config/config.ts'
import { createJobs, type Job } from '../server/src/kernel/jobs/jobs.ts'
import { requestJob, requestJobs } from '../server/src/kernel/jobs/requests.ts'
import { systemClock } from '../server/src/kernel/lib/clock.ts'
import { newId } from '../server/src/kernel/lib/ids.ts'
import { createLog } from '../server/src/kernel/lib/log.ts'
import { openStores } from '../server/src/kernel/stores/stores.ts'

const { values } = parseArgs({
  options: { jobs: { type: 'string', default: '10000' }, backlog: { type: 'string', default: '20000' } },
})
const dataDir = mkdtempSync(join(tmpdir(), 'inlay-bench-'))
const { DATABASE_URL } = process.env
const config = readConfig({
  INLAY_DATA_DIR: dataDir,
  INLAY_SECRET: randomBytes(32).toString('base64'),
  ...(DATABASE_URL && { DATABASE_URL }),
})
const log = createLog('warn')
const stores = await openStores(config, { clock: systemClock, log, claim: 'own' })
const { database } = stores

let done = 0
let onJob: (job: Job) => void = () => undefined
const kind = {
  name: 'bench',
  atOnce: 10,
  run: async (job: Job) => {
    done += 1
    onJob(job)
    return 'done' as const
  },
}
const slowKind = {
  name: 'bench_slow',
  atOnce: 10,
  run: async (job: Job) => {
    await sleep(10)
    onJob(job)
    return 'done' as const
  },
}
const nodes = [1, 2].map(() => createJobs({ database, log }).serve([kind, slowKind]))

const request = async (organizationId: string, name: string, count: number) => {
  for (let first = 0; first < count; first += 5_000) {
    const keys = Array.from({ length: Math.min(5_000, count - first) }, (_, index) => `${first + index}`)
    await database.asOrg(organizationId, (sql) => requestJobs(sql, name, keys))
  }
}

// Idle, over ten seconds. The only other transactions are those of the server's own statistics.
const owner = new pg.Client(stores.owner)
await owner.connect()
const commits = async () => {
  const { rows } = await owner.query(
    'select xact_commit::int as count from pg_stat_database where datname = current_database()',
  )
  return rows[0].count as number
}
await sleep(3_000)
const before = await commits()
await sleep(10_000)
console.log(`idle, two nodes: ${((await commits()) - before) / 10} transactions/s`)

const addOrganization = async () => {
  const id = newId()
  await database.asOrg(id, (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Bench', ${id})`)
  return id
}
const organizations = await Promise.all(Array.from({ length: 20 }, addOrganization))
const count = Number(values.jobs)
for (const id of organizations) await request(id, kind.name, Math.ceil(count / organizations.length))
const startedAt = performance.now()
const startCount = done
while (done < count) await sleep(20)
const perMinute = ((done - startCount) / (performance.now() - startedAt)) * 60_000
console.log(`two nodes in one process: ${Math.round(perMinute)} jobs/min`)

const [noisy, quiet] = [await addOrganization(), await addOrganization()]
await request(noisy, slowKind.name, Number(values.backlog))
const delays: number[] = []
for (let n = 0; n < 20; n += 1) {
  const { promise, resolve } = Promise.withResolvers<void>()
  onJob = ({ organizationId }) => organizationId === quiet && resolve()
  const askedAt = performance.now()
  await database.asOrg(quiet, (sql) => requestJob(sql, slowKind.name, { key: `${n}` }))
  await promise
  delays.push(performance.now() - askedAt)
}
delays.sort((a, b) => a - b)
console.log(
  `behind ${values.backlog} jobs of another: median ${delays[10]?.toFixed(0)} ms, longest ${delays.at(-1)?.toFixed(0)} ms`,
)

await owner.end()
await database.asWorker((sql) => sql`delete from jobs where kind in (${kind.name}, ${slowKind.name})`)
for (const node of nodes) await node.close()
await stores.close()
rmSync(dataDir, { recursive: true, force: true })
