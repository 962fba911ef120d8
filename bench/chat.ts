// Measures the chat in Chromium: opening the panel, and scrolling through a long conversation.
//
//   node bench/chat.ts [--rounds=7] [--messages=5000]
//
// The server is started as in load.ts, and the browser visits the example shop that it brings along. The limit is a
// frame with a text field (for opening) and the same texts as plain elements (for scrolling).

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import pg from 'pg'
import { type BrowserContext, chromium, type Frame, type Page } from 'playwright-core'
import { options, quantile, startInlay, stopAll } from './load.ts'
import { describeTasks, traceTasks } from './tasks.ts'

const rounds = Number(options.rounds)
const messages = Number(options.messages)

const parts = JSON.parse(readFileSync(new URL('../node_modules/.inlay-test-parts.json', import.meta.url), 'utf8'))
const browser = await chromium.launch({ executablePath: parts.chromium, args: ['--no-sandbox', '--disable-gpu'] })

// --- opening

interface Opening {
  /** Milliseconds of CPU time that the page and its frames spent running scripts. */
  scripting: number
  /** Milliseconds from the click until the text field is drawn. */
  usable: number
}

// Run in each page and frame, as text because the browser's types aren't known here. Playwright waits for up to half a
// second before it looks again, so its own time says little.
const recordTimes = `
  const at = (time) => performance.timeOrigin + time
  addEventListener('click', ({ timeStamp }) => { window.clickedAt = at(timeStamp) }, true)
  window.drawn = (isThere) => new Promise((resolve) => {
    const look = (time) => isThere() ? resolve(at(time)) : requestAnimationFrame(look)
    requestAnimationFrame(look)
  })
  window.usableAt = drawn(() => document.querySelector('textarea, input'))`

async function measureOpening(page: Page, open: () => Promise<Frame>): Promise<Opening> {
  const devTools = await page.context().newCDPSession(page)
  await devTools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const scriptSeconds = async () => {
    const { metrics } = await devTools.send('Performance.getMetrics')
    return metrics.find(({ name }) => name === 'ScriptDuration')?.value ?? Number.NaN
  }
  const before = await scriptSeconds()
  const frame = await open()
  const scripting = ((await scriptSeconds()) - before) * 1000
  const clickedAt = await page.evaluate<number>('clickedAt')
  return { scripting, usable: (await frame.evaluate<number>('usableAt')) - clickedAt }
}

async function visitShop(context: BrowserContext, shopUrl: string): Promise<Page> {
  const page = await context.newPage()
  await page.goto(shopUrl)
  await page.getByRole('link', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Demo Member' }).click()
  await page.frameLocator('inlay-agent iframe').locator('html[data-state="connected"]').waitFor({ state: 'attached' })
  return page
}

const findFrame = (page: Page) => page.frames().find((one) => one !== page.mainFrame()) as Frame

async function openAgent(page: Page): Promise<Frame> {
  await page.getByRole('button', { name: /^Open/ }).click()
  await page.frameLocator('inlay-agent iframe').getByRole('textbox').first().waitFor()
  return findFrame(page)
}

const bareField = '<label>Message <input></label>'
const barePage = `<button>Open</button><script>
  document.querySelector('button').onclick = () => {
    const frame = document.createElement('iframe')
    frame.srcdoc = '${bareField}'
    document.body.append(frame)
  }
</script>`

async function openBare(page: Page): Promise<Frame> {
  await page.getByRole('button', { name: 'Open' }).click()
  await page.frameLocator('iframe').getByRole('textbox').waitFor()
  return findFrame(page)
}

// --- scrolling

/** Paragraphs, lists, tables and code in turn. */
const answers = [
  'The parcel left our warehouse **this morning** and arrives on Friday, between 9 and 12. You can follow it at <https://shop.example.com/track>.',
  'You can choose between:\n\n- blue ink, € 9.00\n- green ink, € 9.00\n- a fountain pen, € 48.00\n\nAll of them are in stock.',
  '| Product | Price | Stock |\n|---|---:|---|\n| Notebook, dotted | € 12.00 | 14 |\n| Pencils, box of twelve | € 14.00 | 3 |',
  'Use the API:\n\n```js\nconst response = await fetch("/orders", { method: "POST" })\nconsole.log(await response.json()) // the order\n```',
]

async function addConversation(dataDir: string, title: string): Promise<void> {
  const client = new pg.Client({ host: join(dataDir, 'postgres/socket'), user: 'inlay', database: 'inlay' })
  await client.connect()
  const exchanges = Math.ceil(messages / 2)
  const threadId = randomUUID()
  await client.query('begin')
  const { rows } = await client.query(`select organization_id, id from end_users order by created_at desc limit 1`)
  const [{ organization_id, id: endUserId }] = rows
  const insert = (text: string, values: unknown[]) => client.query(text, [organization_id, threadId, ...values])
  await insert(
    `insert into threads (organization_id, id, end_user_id, title, last_position, message_count, last_message_at)
     values ($1, $2, $3, $4, $5::int, $5::int, now())`,
    [endUserId, title, exchanges * 2],
  )
  await insert(
    `with numbered as (select n, gen_random_uuid() as run_id from generate_series(1, $3::int) n),
     added as (
       insert into runs (organization_id, id, thread_id, position, status, holder, ended_at)
       select $1, run_id, $2, n * 2, 'succeeded', '{}', now() from numbered
     ), said as (
       insert into messages (organization_id, id, thread_id, position, text, run_id, step)
       select $1, gen_random_uuid(), $2, n * 2 - 1, 'Question ' || n || ': where is it, and what else is there?', run_id, 1
       from numbered
     )
     insert into steps (organization_id, run_id, step, text, finish_reason)
     select $1, run_id, 1, 'Answer ' || n || E'.\\n\\n' || ($4::text[])[n % 4 + 1], 'stop' from numbered`,
    [exchanges, answers],
  )
  await client.query('commit')
  await client.end()
}

// Run in the frame, as texts because the browser's types aren't known here.
const recordLongTasks = `
  window.longTasks = []
  new PerformanceObserver((list) => longTasks.push(...list.getEntries().map(({ duration }) => Math.round(duration))))
    .observe({ type: 'longtask' })`
const twoFrames = 'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))'
// Neither searches the whole conversation, which would itself be a long task.
const isAtStart = `document.querySelector('main').scrollTop === 0
  && document.querySelector('article').textContent.startsWith('Question 1:')`
const isOpened = `[...document.querySelectorAll('article')].at(-1)?.textContent.startsWith('Answer ${Math.ceil(messages / 2)}.')`
const isAtEnd = `(({ scrollTop, clientHeight, scrollHeight }) => scrollTop + clientHeight >= scrollHeight - 2)(
  document.querySelector('main'))`

interface Scrolling {
  steps: number
  /** Main-thread tasks over 50 ms of elapsed time, in milliseconds. */
  longTasks: number[]
  /** CPU time of all main-thread tasks, in milliseconds. */
  cpuTimes: number[]
}

const mostSteps = 6_000
/** A longer trace wouldn't fit into the browser's buffer. */
const stepsPerTrace = 200

/** Scrolls with the mouse wheel until the edge is reached. */
async function scroll(page: Page, frame: Frame, direction: -1 | 1, isOver: string): Promise<Scrolling> {
  await frame.evaluate(recordLongTasks)
  const cpuTimes: number[] = []
  let steps = 0
  let isDone = false
  while (!isDone) {
    const found = await traceTasks(browser, page, `scroll${direction}-${steps}`, async () => {
      for (let step = 0; step < stepsPerTrace && !isDone; step += 1) {
        if (steps > mostSteps) throw new Error('The end of the conversation was not reached')
        await page.mouse.wheel(0, direction * 1_500)
        await frame.evaluate(twoFrames)
        steps += 1
        isDone = await frame.evaluate<boolean>(isOver)
      }
    })
    cpuTimes.push(...found)
  }
  return { steps, longTasks: await frame.evaluate<number[]>('longTasks'), cpuTimes }
}

function describe({ steps, longTasks, cpuTimes }: Scrolling): string {
  const longest = longTasks.reduce((most, ms) => Math.max(most, ms), 0)
  return `${steps} | ${longTasks.length} | ${longest} ms | ${describeTasks(cpuTimes, steps)}`
}

// --- the run

const { dataDir, logFile } = await startInlay('chat')
const shopUrl = /Widget +(\S+)/.exec(readFileSync(logFile, 'utf8'))?.[1] ?? ''
const bare = createServer((_, response) => response.setHeader('content-type', 'text/html').end(barePage))
await new Promise<void>((resolve) => bare.listen(0, '127.0.0.1', resolve))
const bareUrl = `http://127.0.0.1:${(bare.address() as AddressInfo).port}`

const openings = { agent: [] as Opening[], bare: [] as Opening[] }
for (let round = 0; round < rounds; round += 1) {
  // A new profile, so that nothing is cached.
  const context = await browser.newContext()
  await context.addInitScript(recordTimes)
  const shop = await visitShop(context, shopUrl)
  openings.agent.push(await measureOpening(shop, () => openAgent(shop)))
  const page = await context.newPage()
  await page.goto(bareUrl)
  openings.bare.push(await measureOpening(page, () => openBare(page)))
  await context.close()
}
const median = (list: Opening[], name: keyof Opening) =>
  quantile(
    list.map((one) => one[name]).toSorted((a, b) => a - b),
    0.5,
  ).toFixed(0)
console.log(`| Opening the panel, median of ${rounds} | Scripting ms | Usable after ms |\n| --- | ---: | ---: |`)
console.log(
  `| a frame with a text field | ${median(openings.bare, 'scripting')} | ${median(openings.bare, 'usable')} |`,
)
console.log(`| Inlay | ${median(openings.agent, 'scripting')} | ${median(openings.agent, 'usable')} |\n`)

const title = 'A long conversation'
await addConversation(dataDir, title)
const context = await browser.newContext()
await context.addInitScript(recordTimes)
const page = await visitShop(context, shopUrl)
const frame = await openAgent(page)
const inside = page.frameLocator('inlay-agent iframe')
await inside.getByRole('button', { name: /^Conversations/ }).click()
await inside.getByRole('button', { name: new RegExp(`^${title}`) }).click()
const openedAt = await frame.evaluate<number>(`drawn(() => ${isOpened})`)
const openedAfter = openedAt - (await frame.evaluate<number>('clickedAt'))
console.log(`Opening a conversation of ${messages} messages at its end takes ${openedAfter.toFixed(0)} ms\n`)
if (!(await frame.evaluate<boolean>(isAtEnd))) throw new Error('The conversation did not open at its end')
const box = await page.locator('inlay-agent iframe').boundingBox()
if (!box) throw new Error('The panel is not visible')
await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
const up = await scroll(page, frame, -1, isAtStart)
const down = await scroll(page, frame, 1, isAtEnd)
console.log(
  `| Scrolling ${messages} messages | Turns of the wheel | Long tasks | Longest | Long by CPU time | Longest | CPU per turn |`,
)
console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: |')
console.log(`| up, while they are loaded | ${describe(up)} |`)
console.log(`| down, once they are there | ${describe(down)} |`)

await browser.close()
bare.close()
await stopAll()
