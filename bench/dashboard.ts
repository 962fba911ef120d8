// Measures the dashboard in Chromium: opening Usage with a year of data, and scrolling through a long table.
//
//   node bench/dashboard.ts [--rounds=7] [--sites=50] [--users=100000]
//
// The server is started as in load.ts. Times are CPU time of the page's main thread, so that other load on the machine
// hardly matters. The limit is the same page without data.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { chromium, type Page } from 'playwright-core'
import { options, quantile, startInlay, stopAll } from './load.ts'
import { describeTasks, traceTasks } from './tasks.ts'

const rounds = Number(options.rounds)
const sites = Number(options.sites)
const users = Number(options.users)

const parts = JSON.parse(readFileSync(new URL('../node_modules/.inlay-test-parts.json', import.meta.url), 'utf8'))
const browser = await chromium.launch({ executablePath: parts.chromium, args: ['--no-sandbox', '--disable-gpu'] })

/** Gives the organization a year of usage on its sites, and its end users. */
async function fill(dataDir: string, slug: string): Promise<void> {
  const client = new pg.Client({ host: join(dataDir, 'postgres/socket'), user: 'inlay', database: 'inlay' })
  await client.connect()
  const { rows } = await client.query('select id from organizations where slug = $1', [slug])
  const [{ id }] = rows
  await client.query('begin')
  await client.query(
    `with added as (
       insert into sites (organization_id, id, origin, name, is_allowed)
       select $1, gen_random_uuid(), 'https://site-' || n || '.example.com', 'Site ' || n, true
       from generate_series(1, $2::int) n returning id
     )
     insert into usage_site_days
       (organization_id, day, site_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
     select $1, current_date - n, added.id, 100 + n % 7, 40000 + n * 13, 9000 + n * 5, 70000 + n
     from added, generate_series(0, 364) n`,
    [id, sites],
  )
  await client.query(
    `insert into end_users (organization_id, id, external_id, email)
     select $1, gen_random_uuid(), 'user-' || n, 'user-' || n || '@example.com' from generate_series(1, $2::int) n`,
    [id, users],
  )
  await client.query('commit')
  await client.end()
}

async function signIn(url: string, slug: string, user: string): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } })
  await page.goto(`${url}/o/${slug}`)
  await page.getByRole('button', { name: user }).click()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.waitForLoadState('networkidle')
  return page
}

interface Cost {
  /** Milliseconds of CPU time in scripts. */
  scripting: number
  /** Milliseconds of CPU time of the main thread, with layout and painting. */
  total: number
}

/** Returns a function that says what the main thread has done since it was last asked. */
async function meter(page: Page): Promise<() => Promise<Cost>> {
  const devTools = await page.context().newCDPSession(page)
  await devTools.send('Performance.enable', { timeDomain: 'threadTicks' })
  let last = { scripting: 0, total: 0 }
  const read = async () => {
    const { metrics } = await devTools.send('Performance.getMetrics')
    const value = (name: string) => (metrics.find((one) => one.name === name)?.value ?? Number.NaN) * 1000
    const now = { scripting: value('ScriptDuration'), total: value('TaskDuration') }
    const since = { scripting: now.scripting - last.scripting, total: now.total - last.total }
    last = now
    return since
  }
  await read()
  return read
}

const link = (page: Page, name: string) =>
  page.getByRole('navigation', { name: 'Navigation' }).getByRole('link', { name, exact: true })

/** Opens Usage for a year. The first visit also loads its code, so it isn't counted. */
async function measureUsage(page: Page): Promise<Cost> {
  const read = await meter(page)
  const costs: Cost[] = []
  for (let round = 0; round <= rounds; round += 1) {
    await link(page, 'Overview').click()
    await page.waitForLoadState('networkidle')
    await read()
    await link(page, 'Usage').click()
    await page.getByLabel('Period').selectOption('365')
    await page.waitForLoadState('networkidle')
    await page.evaluate(twoFrames)
    costs.push(await read())
  }
  return median(costs.slice(1))
}

const median = (costs: Cost[]): Cost => {
  const of = (name: keyof Cost) =>
    quantile(
      costs.map((cost) => cost[name]).toSorted((a, b) => a - b),
      0.5,
    )
  return { scripting: of('scripting'), total: of('total') }
}

// Run in the page, as text because the browser's types aren't known here.
const twoFrames = 'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))'

const steps = 300
const stepsPerTrace = 100

/** Turns the wheel, and jumps through the table as a scroll bar does. Returns the CPU time of each task. */
async function measureScrolling(page: Page): Promise<number[]> {
  await link(page, 'End users').click()
  const table = page.getByRole('table', { name: 'End users' })
  await table.getByRole('row').nth(5).waitFor()
  const box = await table.boundingBox()
  if (!box) throw new Error('The table is not visible')
  await page.mouse.move(box.x + box.width / 2, box.y + 200)
  const cpuTimes: number[] = []
  for (let step = 0; step < steps; ) {
    const found = await traceTasks(browser, page, `table-${step}`, async () => {
      for (const end = step + stepsPerTrace; step < end; step += 1) {
        await page.mouse.wheel(0, step % 10 === 9 ? 120_000 : 1_200)
        await page.evaluate(twoFrames)
      }
    })
    cpuTimes.push(...found)
  }
  return cpuTimes
}

const { port, dataDir } = await startInlay('dashboard')
const url = `http://localhost:${port}`
const empty = await signIn(url, 'other', 'admin@other.test')
const limit = await measureUsage(empty)
await empty.close()
await fill(dataDir, 'demo')
const page = await signIn(url, 'demo', 'admin@demo.test')
const usage = await measureUsage(page)

const show = ({ scripting, total }: Cost) => `${scripting.toFixed(0)} | ${total.toFixed(0)}`
console.log(`| Usage of a year, median of ${rounds} | Scripting ms | Main thread ms |\n| --- | ---: | ---: |`)
console.log(`| without data | ${show(limit)} |`)
console.log(`| ${sites} sites | ${show(usage)} |\n`)

const scrolling = await measureScrolling(page)
console.log(`| Scrolling ${users} end users | Turns of the wheel | Long by CPU time | Longest | CPU per turn |`)
console.log('| --- | ---: | ---: | ---: | ---: |')
console.log(`| | ${steps} | ${describeTasks(scrolling, steps)} |`)

await browser.close()
await stopAll()
