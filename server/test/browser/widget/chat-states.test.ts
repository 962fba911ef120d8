import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { usePage } from '../chromium.ts'
import { answers, type ChatSite, field, launcher, messages, press, see, startChatSite, write } from './chat-site.ts'
import { frameOf } from './shop.ts'

let site: ChatSite
beforeAll(async () => {
  site = await startChatSite()
})
afterAll(() => site.close())

const hour = 60 * 60 * 1000
const open = (page: Page) => launcher(page, 'Open the agent').click()
const sendButton = (page: Page) => frameOf(page).getByRole('button', { name: 'Send', exact: true })
const isOff = (page: Page) => sendButton(page).getAttribute('aria-disabled')

test('without a model, the panel says that the agent isn’t set up, and sends nothing', async () => {
  const token = await site.tokenFor('admin@other.test', 'other')
  const inOther = (method: string, path: string, body: object) => site.request(method, path, { token, body })
  const { body: key } = await inOther('POST', '/publishable-keys', { name: 'Site' })
  const model = { provider: 'anthropic', url: 'https://api.anthropic.com/v1', name: 'claude', key: 'sk-12345678' }
  await inOther('PATCH', '/agent/config', { model, anonymous: { is_enabled: true } })
  // As after a loss of the operator's secret.
  await site.service.database.asOrg(
    await site.organization('other'),
    (sql) => sql`update agent_settings set model_keys_sealed = 'v1.00000000.AAAAAAAAAAAAAAAA.AAAA'`,
  )
  const { body } = await inOther('PATCH', '/agent/config', { name: 'Elsewhere' })
  expect(body.name).toBe('Elsewhere')
  const page = await site.visit({ sub: null, key: key.key })
  await open(page)
  await see(page, 'The agent isn’t set up yet')
  await see(page, 'An administrator has to choose a model first.')
  await write(page, 'Hello?')
  expect([await isOff(page), await field(page).inputValue()]).toEqual(['true', 'Hello?'])
})

test('where visitors aren’t allowed, the panel asks them to sign in, and works once they have', async () => {
  const page = await site.visit({ sub: null })
  await open(page)
  await see(page, 'Sign in to use the agent')
  await write(page, 'Hello?')
  expect([await isOff(page), await field(page).inputValue()]).toEqual(['true', 'Hello?'])
  expect(site.model.requests).toEqual([])
  site.expect({ text: ['Hello, Vera.'] })
  await page.evaluate(`sub = 'vera'; agent.setAuth({ idToken })`)
  await see(page, 'What can I do for you?')
  expect(await field(page).inputValue(), 'what the visitor typed is still there').toBe('Hello?')
  await field(page).press('Enter')
  await see(page, 'Hello, Vera.')
})

test('a budget that is used up is shown with the time when it resets, and the answer can be repeated', async () => {
  const limit = (day_tokens: number | null) => site.asAdmin('PATCH', '/budgets', { end_user_default: { day_tokens } })
  onTestFinished(async () => void (await limit(null)))
  await limit(100_000)
  const page = await site.visit({ sub: 'spender' })
  await open(page)
  site.expect({ text: ['A lot.'], usage: { prompt_tokens: 99_990, completion_tokens: 10 } })
  await write(page, 'Tell me a lot')
  await see(page, 'A lot.')
  await write(page, 'Tell me more')
  const failed = answers(page).filter({ hasText: 'The budget is used up' })
  await failed.waitFor()
  expect(await failed.innerText()).toMatch(/00:00 UTC/)
  expect(await failed.innerText(), 'the user doesn’t see the amount').not.toMatch(/100.?000/)
  await limit(null)
  site.expect({ text: ['More.'] })
  await press(page, 'Retry')
  await see(page, 'More.')
  expect(await frameOf(page).getByText('The budget is used up').count()).toBe(0)
})

test('an expired session is renewed by the page, without the user’s help', async () => {
  const page = await site.visit({ sub: 'sleeper' })
  await open(page)
  site.expect({ text: ['Good night.'] })
  await write(page, 'Good night')
  await see(page, 'Good night.')
  expect(site.timesAsked('sleeper')).toBe(1)
  // Whoever moves a server's clock moves the date in its responses, by which the frame dates its proofs.
  await page.route('**/api/auth/pk-ticket', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, headers: { ...response.headers(), date: new Date(site.clock.now).toUTCString() } })
  })
  site.setAhead(2 * hour)
  await expect.poll(() => site.timesAsked('sleeper')).toBeGreaterThan(1)
  site.expect({ text: ['Good morning.'] })
  await write(page, 'Good morning')
  await see(page, 'Good morning.')
  expect(await messages(page).allInnerTexts()).toEqual(['Good night', 'Good morning'])
  expect(await page.evaluate(`heard.filter(({ type }) => type === 'inlay-error')`)).toEqual([])
  site.setAhead(0)
})

test('a message that is too long isn’t sent, and the user is told how long it may be', async () => {
  const page = await site.visit({ sub: 'writer' })
  await open(page)
  await field(page).fill('x'.repeat(32_001))
  await see(page, 'This message is too long. Shorten it to 32,000 characters.')
  await field(page).press('Enter')
  expect([await isOff(page), (await field(page).inputValue()).length]).toEqual(['true', 32_001])
  await field(page).press('End')
  await field(page).press('Backspace')
  await see(page, '32,000 of 32,000 characters')
  site.expect({ text: ['That was long.'] })
  await field(page).press('Enter')
  await see(page, 'That was long.')
})

test('a server that doesn’t respond is noticed within ten seconds, and found again', async () => {
  const page = await usePage()
  let isSilent = false
  await page.routeWebSocket(/\/runtime$/, (socket) => {
    const server = socket.connectToServer()
    socket.onMessage((message) => void (isSilent || server.send(message)))
    server.onMessage((message) => void (isSilent || socket.send(message)))
  })
  await page.clock.install()
  await site.enter(page, { sub: 'patient' })
  await open(page)
  await see(page, 'What can I do for you?')
  isSilent = true
  await page.clock.runFor(9_500)
  await see(page, 'Trying to reach the server. Your messages are sent as soon as it responds.')
  await write(page, 'Are you there?')
  await messages(page).filter({ hasText: 'Sent when you’re back online' }).waitFor()
  isSilent = false
  site.expect({ text: ['Here I am.'] })
  await page.clock.runFor(15_500)
  await see(page, 'Here I am.')
  expect(await frameOf(page).getByText('Trying to reach the server.').count()).toBe(0)
})
