import { randomUUID } from 'node:crypto'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addLongRuns } from '../../long-runs.ts'
import {
  answers,
  type ChatSite,
  choose,
  done,
  frameKeyOf,
  launcher,
  press,
  question,
  see,
  startChatSite,
  write,
} from './chat-site.ts'
import { frameOf, waitUntilConnected } from './shop.ts'

const exchanges = 200
const title = 'A long conversation'

let site: ChatSite
beforeAll(async () => {
  site = await startChatSite()
})
afterAll(() => site.close())

/** Opens a conversation that the user had earlier. */
async function openLongConversation(sub: string): Promise<Page> {
  const page = await site.visit({ sub })
  await launcher(page, 'Open the agent').click()
  await addConversation(sub, new URL(page.url()).origin, await frameKeyOf(page))
  await press(page, 'Conversations')
  await frameOf(page)
    .getByRole('button', { name: new RegExp(`^${title}`) })
    .click()
  await see(page, `Answer ${exchanges}.`)
  await frameOf(page).locator('main').hover()
  return page
}

async function addConversation(sub: string, origin: string, frameKey: string): Promise<void> {
  const organization = await site.organization('demo')
  await site.service.database.asOrg(organization, async (sql) => {
    const thread = randomUUID()
    await sql`
      insert into threads (organization_id, id, end_user_id, origin, frame_key, title, last_position, message_count,
        last_message_at)
      select organization_id, ${thread}, id, ${origin}, ${frameKey}, ${title}, ${exchanges * 2}::int,
             ${exchanges * 2}::int, now()
      from end_users where external_id = ${sub}`
    await sql`
      with numbered as (select n, gen_random_uuid() as run_id from generate_series(1, ${exchanges}::int) n),
      added as (
        insert into runs (organization_id, id, thread_id, position, status, holder, ended_at)
        select ${organization}, run_id, ${thread}, n * 2, 'succeeded', '{}', now() from numbered
      ), said as (
        insert into messages (organization_id, id, thread_id, position, text, run_id, step)
        select ${organization}, gen_random_uuid(), ${thread}, n * 2 - 1, 'Question ' || n, run_id, 1 from numbered
      )
      insert into steps (organization_id, run_id, step, text, finish_reason)
      select ${organization}, run_id, 1, 'Answer ' || n || '.' || repeat(E'\n\nThere is more to say.', n % 5), 'stop'
      from numbered`
  })
}

const inFrame = <Result>(page: Page, script: string): Promise<Result> =>
  page.frames()[1]?.evaluate(script) as Promise<Result>

const twoFrames = 'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))'

interface Reading {
  /** How many messages are there. */
  count: number
  scrollTop: number
  /** The first message in view, and where it is. */
  id: string
  top: number
}

const reading = `(() => {
  const main = document.querySelector('main')
  const all = [...document.querySelectorAll('article')]
  const edge = main.getBoundingClientRect().top
  const first = all.find((each) => each.getBoundingClientRect().bottom > edge)
  const { top } = first.getBoundingClientRect()
  return { count: all.length, scrollTop: main.scrollTop, id: first.dataset.id, top }
})()`

test('earlier messages are loaded when the user has scrolled up, in order and without a jump, until the first one', async () => {
  const page = await openLongConversation('reader')
  const jumps: number[] = []
  for (let count = 0; count < exchanges * 2; ) {
    // At once, because the panel may be loading messages already.
    const before = await inFrame<Reading>(page, `document.querySelector('main').scrollTop = 300; ${reading}`)
    if (before.count === exchanges * 2) break
    await expect.poll(async () => (await inFrame<Reading>(page, reading)).count).toBeGreaterThan(before.count)
    await inFrame(page, twoFrames)
    const top = await inFrame<number>(
      page,
      `document.querySelector('[data-id="${before.id}"]').getBoundingClientRect().top`,
    )
    jumps.push(Math.abs(top - before.top))
    count = (await inFrame<Reading>(page, reading)).count
  }
  const texts = await inFrame<string[]>(
    page,
    `[...document.querySelectorAll('.bubble')].map((each) => each.textContent)`,
  )
  expect(texts).toEqual(Array.from({ length: exchanges }, (_, index) => `Question ${index + 1}`))
  expect(Math.max(...jumps), 'what the user reads stays in its place').toBeLessThan(2)

  await press(page, 'Jump to latest')
  await expect
    .poll(() =>
      inFrame(
        page,
        `(({ scrollTop, clientHeight, scrollHeight }) => scrollHeight - clientHeight - scrollTop)(
      document.querySelector('main'))`,
      ),
    )
    .toBeLessThan(2)
  expect(await answers(page).last().isVisible()).toBe(true)
})

test('a question and the focus in it stay while the user reads far above them', async () => {
  const page = await openLongConversation('asked')
  site.expect({ calls: [{ name: 'refund', args: { order: 1, amount: 10 } }] }, { text: ['It is refunded.'] })
  await write(page, 'Refund it')
  const amount = question(page).getByRole('textbox', { name: 'Amount' })
  await amount.fill('5')
  await frameOf(page).locator('main').hover()
  const scrolled = `document.querySelector('main').scrollHeight - document.querySelector('main').scrollTop`
  await expect
    .poll(async () => {
      await page.mouse.wheel(0, -1_000)
      await inFrame(page, twoFrames)
      return inFrame<number>(page, scrolled)
    })
    .toBeGreaterThan(10_000)
  expect(await amount.evaluate((each) => each.matches(':focus')), 'the focus is where it was').toBe(true)
  await page.keyboard.press('Backspace')
  await page.keyboard.type('7')
  await choose(page, 'Allow once')
  await see(page, 'It is refunded.')
  expect(await done(page)).toEqual(['Refunded 7 for order 1'])
})

test('a conversation with 304 long results opens, also after a reload, and the page stays connected', async () => {
  const page = await site.visit({ sub: 'hoarder' })
  await launcher(page, 'Open the agent').click()
  const { origin } = new URL(page.url())
  const frameKey = await frameKeyOf(page)
  await addLongRuns(site, { sub: 'hoarder', origin, frameKey, runs: [{ steps: 19, calls: 16, resultLength: 16_000 }] })
  await press(page, 'Conversations')
  await frameOf(page)
    .getByRole('button', { name: new RegExp(`^${title}`) })
    .click()
  const isShown = async () => {
    await see(page, 'Question 0')
    await expect.poll(() => frameOf(page).getByText('y'.repeat(10), { exact: true }).count()).toBe(19)
    expect(await page.frames()[1]?.evaluate('document.documentElement.dataset.state')).toBe('connected')
  }
  await isShown()
  await page.reload()
  await waitUntilConnected(page)
  await launcher(page, 'Open the agent').click()
  await isShown()
})
