import axe from 'axe-core'
import type { Frame, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type ChatService, type SiteTool, startChatService, visitChat, write } from './chat-page.ts'
import { type ChatSite, choose, launcher, see, startChatSite, write as type, type Visitor } from './chat-site.ts'
import { clickChoice, frameOf, useAssistant } from './shop.ts'

let app: ChatService
let site: ChatSite
beforeAll(async () => {
  app = await startChatService()
  await app.configure({ greeting: 'What can I do for you?', starter_prompts: ['Where is my order?', 'Show the menu'] })
  site = await startChatSite()
  const skill = ['---', 'name: refunds', 'description: How to refund an order', '---', 'Ask crm who the user is.']
  await site.asAdmin('POST', '/organization-skills', { content: skill.join('\n') })
})
afterAll(async () => {
  await app.close()
  await site.close()
})

const answer = [
  '## Your order\n\nIt was **sent** on _Monday_: [track it](https://parcels.example/1), or see https://shop.example/.',
  '| Item | Price |\n| --- | ---: |\n| Ink | 9.00 |\n| A_very_long_name_without_any_place_to_break_the_line_of_it | 12.00 |',
  '```ts\nconst total = 9 + 12 // the sum of all the items that you have ordered from us until now, in euros\n```',
  '###### Details\n\n> A quote\n\n1. One\n2. Two\n   - [x] done\n   - [ ] open\n\n---\n\n`inline code`',
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

const options = { viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce' } as const

async function open(attributes = 'open'): Promise<Page> {
  return visitChat(app, { tools, attributes, ...options })
}

async function enter(visitor: Visitor): Promise<Page> {
  const page = await site.visit(visitor, options)
  await launcher(page, 'Open the agent').click()
  return page
}

function frameIn(page: Page): Frame {
  const frame = page.frames().find((each) => each.url().includes('/embed/'))
  if (!frame) throw new Error('There is no frame')
  return frame
}

async function report(page: Page, rules = {}): Promise<string[]> {
  const run = `(async () => {
    const { violations } = await axe.run(document, { iframes: false, rules: ${JSON.stringify(rules)} })
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

/** Both themes on a desktop and on a phone, forced colors, a desktop at 200 %, and one at 400 % or a phone at 320 px. */
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
  for (const size of [
    { width: 640, height: 400 },
    { width: 320, height: 256 },
    { width: 320, height: 600 },
  ]) {
    await page.setViewportSize(size)
    const message = `${state}, ${size.width} × ${size.height} px`
    await expect.poll(() => overflow(page), { message }).toBeLessThanOrEqual(0)
    expect(await report(page), message).toEqual([])
  }
  await page.setViewportSize(options.viewport)
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
  // A choice that has just moved takes no answer, so people repeat it.
  const next = frameOf(page).getByText('3', { exact: true }).or(frameOf(page).getByLabel('Count')).first()
  const isNext = () =>
    next.waitFor({ timeout: 2_000 }).then(
      () => true,
      () => false,
    )
  do await clickChoice(frameOf(page).getByRole('button', { name: 'Allow once', exact: true }))
  while (!(await isNext()))
  await choose(page, 'Decline')
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

test.each(['inline', 'fullscreen'])('the mode %s', async (mode) => {
  app.model.follow(() => ({ text: [answer] }))
  const page = await open(`display-mode="${mode}" open`)
  await write(page, 'Where is my order?')
  await rested(page, 'succeeded')
  await check(page, mode)
})

test('an agent that can’t answer: without a model, for visitors, and without a budget', async () => {
  const token = await site.tokenFor('admin@other.test', 'other')
  const { body } = await site.request('POST', '/publishable-keys', { token, body: { name: 'Site' } })
  const stranger = await enter({ sub: null, key: body.key })
  await see(stranger, 'Sign in to use the agent')
  await check(stranger, 'sign-in')
  const model = { provider: 'anthropic', url: 'https://api.anthropic.com/v1', name: 'claude', key: 'sk-12345678' }
  await site.request('PATCH', '/agent/config', { token, body: { model, anonymous: { is_enabled: true } } })
  // As after a loss of the operator's secret.
  await site.service.database.asOrg(
    await site.organization('other'),
    (sql) => sql`update agent_settings set model_keys_sealed = 'v1.00000000.AAAAAAAAAAAAAAAA.AAAA'`,
  )
  await site.request('PATCH', '/agent/config', { token, body: { name: 'Elsewhere' } })
  const visitor = await enter({ sub: null, key: body.key })
  await see(visitor, 'The agent isn’t set up yet')
  await check(visitor, 'not configured')

  await site.asAdmin('PATCH', '/budgets', { end_user_default: { day_tokens: 1 } })
  onTestFinished(async () => void (await site.asAdmin('PATCH', '/budgets', { end_user_default: { day_tokens: null } })))
  const spender = await enter({ sub: 'spender' })
  await type(spender, 'Tell me a lot')
  await see(spender, 'The budget is used up')
  await check(spender, 'budget')
})

test('the menu of skills, a question of another assistant, and standing permissions', async () => {
  const page = await enter({ sub: 'member' })
  await see(page, 'What can I do for you?')
  await frameOf(page).locator('.field').fill('/')
  await frameOf(page)
    .getByRole('option', { name: /refunds/ })
    .waitFor()
  await check(page, 'skill menu')
  await frameOf(page).locator('.field').press('Enter')
  await frameOf(page).getByRole('button', { name: 'Remove the skill refunds' }).waitFor()
  await check(page, 'skill')
  const assistant = await useAssistant(site, 'member@demo.test')
  await expect.poll(assistant.toolCounts).toEqual([2])
  const refunding = assistant.use('refund', { order: 7, amount: 90 })
  await frameOf(page).getByRole('alertdialog').waitFor()
  await check(page, 'docked question')
  await frameOf(page).getByText('More options').press('Enter')
  await frameOf(page).locator('.always:not([aria-disabled="true"])').press('Enter')
  await refunding
  await press(page, 'Activity')
  await frameOf(page).getByText('1 standing permission').click()
  await check(page, 'permissions')
})

test('the offer to keep a visitor’s conversation', async () => {
  await site.asAdmin('PATCH', '/agent/config', { anonymous: { is_enabled: true } })
  const page = await enter({ sub: null })
  await type(page, 'Hello')
  await rested(page, 'succeeded')
  await page.evaluate(`sub = 'ann'; agent.setAuth({ idToken })`)
  await see(page, 'Keep the conversation that you had before you signed in?')
  await check(page, 'adoption')
})

/** A desktop at 200 % and at 400 %. */
test.each([
  { width: 640, height: 400 },
  { width: 320, height: 256 },
])('questions can be answered at $width × $height px', async (viewport) => {
  app.model.follow(({ messages }) =>
    messages.at(-1)?.role === 'tool' ? { text: ['Ordered.'] } : { calls: [{ name: 'order', args: order }] },
  )
  const page = await open()
  await page.setViewportSize(viewport)
  await write(page, 'Order ink')
  await frameOf(page).locator('.once:not([aria-disabled="true"])').press('Enter')
  await rested(page, 'succeeded')

  const other = await site.visit({ sub: 'member' }, { ...options, viewport })
  const assistant = await useAssistant(site, 'member@demo.test')
  await expect.poll(assistant.toolCounts).toEqual([2])
  const refunding = assistant.use('refund', { order: 7, amount: 90 })
  // The focus scrolls to the button, which pauses it: what has just moved takes no answer.
  await frameOf(other).locator('.once').focus()
  await frameOf(other).locator('.once:not([aria-disabled="true"])').press('Enter')
  expect((await refunding).isError).not.toBe(true)
})
