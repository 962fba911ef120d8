import axe from 'axe-core'
import type { Frame, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ChatService, type SiteTool, startChatService, visitChat, write } from './chat-page.ts'
import { frameOf } from './shop.ts'

let app: ChatService
beforeAll(async () => {
  app = await startChatService()
  await app.configure({ greeting: 'What can I do for you?', starter_prompts: ['Where is my order?', 'Show the menu'] })
})
afterAll(() => app.close())

const answer = [
  '## Your order\n\nIt was **sent** on _Monday_: [track it](https://parcels.example/1), or see https://shop.example/.',
  '| Item | Price |\n| --- | ---: |\n| Ink | 9.00 |\n| A_very_long_name_without_any_place_to_break_the_line_of_it | 12.00 |',
  '```ts\nconst total = 9 + 12 // the sum of all the items that you have ordered from us until now, in euros\n```',
  '> A quote\n\n1. One\n2. Two\n   - [x] done\n   - [ ] open\n\n---\n\n`inline code`',
].join('\n\n')

const tools: SiteTool[] = [
  { name: 'find', title: 'Find', description: 'Finds products.', annotations: { readOnlyHint: true }, result: 'Ink' },
  {
    name: 'order',
    title: 'Order',
    description: 'Orders a product.',
    inputSchema: {
      type: 'object',
      required: ['product', 'count', 'speed', 'note'],
      properties: {
        product: { type: 'string', description: 'The product’s name' },
        count: { type: 'integer', minimum: 1 },
        speed: { enum: ['fast', 'slow'] },
        note: { type: 'string' },
        gift: { type: 'boolean' },
        more: { type: 'object' },
      },
    },
  },
]
const order = { product: 'Ink', count: 2, speed: 'fast', note: 'Please '.repeat(20), gift: true, more: { a: [1] } }

async function open(): Promise<Page> {
  return visitChat(app, { tools, viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce' })
}

function frameIn(page: Page): Frame {
  const frame = page.frames().find((each) => each.url().startsWith(`${app.url}/embed/`))
  if (!frame) throw new Error('There is no frame')
  return frame
}

/** The agent chooses the levels of its own headings. */
const usualRules = { 'heading-order': { enabled: false } }

async function report(page: Page, rules = {}): Promise<string[]> {
  const run = `(async () => {
    const { violations } = await axe.run(document, { iframes: false, rules: ${JSON.stringify({ ...usualRules, ...rules })} })
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => [id, html.slice(0, 120), failureSummary].join(' | ')))
  })()`
  const frame = frameIn(page)
  for (const each of [page.mainFrame(), frame])
    if (!(await each.evaluate('typeof axe === "object"'))) await each.evaluate(axe.source)
  return [...(await frame.evaluate<string[]>(run)), ...(await page.evaluate<string[]>(run))]
}

const setTheme = (page: Page, theme: string) =>
  page.evaluate(`document.querySelector('inlay-agent').setHostContext({ theme: '${theme}' })
    document.documentElement.style.colorScheme = '${theme}'`)

/** Pixels by which something is wider than the panel. */
const overflow = (page: Page) =>
  frameIn(page).evaluate<number>(
    `Math.max(...[document.documentElement, document.body, document.querySelector('main')].map((each) => each.scrollWidth - each.clientWidth))`,
  )

/** Both themes on a desktop and on a phone, forced colors, and a phone at 320 px or a desktop at 400 %. */
async function check(page: Page, state: string): Promise<void> {
  for (const theme of ['light', 'dark'])
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 })
      await setTheme(page, theme)
      await expect.poll(() => frameIn(page).evaluate('document.documentElement.style.colorScheme')).toBe(theme)
      expect(await report(page), `${state}, ${theme}, ${width} px`).toEqual([])
    }
  await page.emulateMedia({ forcedColors: 'active' })
  // Computed styles don't have the colors that the browser forces.
  const rules = { 'color-contrast': { enabled: false } }
  expect(await report(page, rules), `${state}, forced colors`).toEqual([])
  await page.emulateMedia({ forcedColors: 'none' })
  await page.setViewportSize({ width: 320, height: 600 })
  await expect.poll(() => overflow(page), { message: state }).toBeLessThanOrEqual(0)
  await page.setViewportSize({ width: 1280, height: 800 })
}

const press = (page: Page, name: string | RegExp) =>
  frameOf(page)
    .getByRole('button', { name, ...(typeof name === 'string' && { exact: true }) })
    .first()
    .click()
const rested = (page: Page, status: string) => frameOf(page).locator(`[data-status="${status}"]`).last().waitFor()

test('the empty chat, an answer and everything around it', async () => {
  app.model.follow(() => ({ text: [answer] }))
  const page = await open()
  await frameOf(page).getByText('Show the menu').waitFor()
  await check(page, 'empty')
  await write(page, 'Where is my order? '.repeat(5))
  await rested(page, 'succeeded')
  await check(page, 'answer')
  await press(page, 'Bad answer')
  await frameOf(page).getByRole('textbox', { name: 'What was wrong' }).waitFor()
  await check(page, 'feedback')
  await frameOf(page).locator('.mine').hover()
  await press(page, 'Edit')
  await check(page, 'edit')
})

test('questions and tool calls', async () => {
  app.model.follow(({ messages }) =>
    messages.at(-1)?.role === 'tool'
      ? { text: ['Ordered.'] }
      : {
          calls: [
            { name: 'find', args: { text: 'ink' } },
            { name: 'order', args: order },
            { name: 'order', args: { ...order, count: 3 } },
          ],
        },
  )
  const page = await open()
  await write(page, 'Order ink')
  await rested(page, 'waiting')
  await check(page, 'approval')
  await frameOf(page).getByText('More options').click()
  await frameOf(page).getByLabel('Count').fill('0')
  await check(page, 'approval with a mistake')
  await frameOf(page).getByLabel('Count').fill('5')
  await press(page, 'Show as JSON')
  await check(page, 'approval as JSON')
  await press(page, 'Allow once')
  await frameOf(page).getByText('3', { exact: true }).or(frameOf(page).getByLabel('Count')).first().waitFor()
  await press(page, 'Decline')
  await rested(page, 'succeeded')
  for (const card of await frameOf(page).locator('details.tool > summary').all()) await card.click()
  await check(page, 'tool cards')
  await press(page, 'Activity')
  await frameOf(page).getByText('2 tools on this page').click()
  await check(page, 'activity')
  await press(page, 'Back to the chat')
  await press(page, 'Conversations')
  await frameOf(page).locator('.thread').first().waitFor()
  await check(page, 'conversations')
  await press(page, /^Rename/)
  await check(page, 'rename')
  await press(page, 'Cancel')
  await press(page, /^Delete/)
  await check(page, 'delete')
})

test('problems', async () => {
  app.model.follow(() => ({ status: 500 }))
  const page = await open()
  await write(page, 'Hello')
  await rested(page, 'failed')
  await check(page, 'failed')
  await page.context().setOffline(true)
  await frameOf(page).getByText('You’re offline').waitFor()
  await write(page, 'Are you there?')
  await check(page, 'offline')
})
