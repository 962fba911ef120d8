import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  agentName,
  answers,
  type ChatSite,
  choose,
  field,
  launcher,
  messages,
  press,
  see,
  startChatSite,
  write,
} from './chat-site.ts'
import { frameOf, waitUntilConnected } from './shop.ts'

let site: ChatSite
beforeAll(async () => {
  site = await startChatSite()
  await site.asAdmin('PATCH', '/agent/config', { are_contents_visible: true })
})
afterAll(() => site.close())

const open = (page: Page) => launcher(page, 'Open the agent').click()
const rows = (page: Page) => frameOf(page).getByRole('list', { name: 'Conversations' }).getByRole('listitem')
const titles = (page: Page) => rows(page).locator('.thread-name').allInnerTexts()
const texts = (page: Page) => answers(page).locator('.text').allInnerTexts()
const heard = (page: Page, type: string): Promise<Record<string, string>[]> =>
  page.evaluate(`heard.filter(({ type }) => type === 'inlay-${type}').map(({ detail }) => detail)`)

/** Asks something in a new conversation. */
async function ask(page: Page, text: string, answer: string): Promise<void> {
  await press(page, 'New conversation')
  site.expect({ text: [answer] })
  await write(page, text)
  await see(page, answer)
}

test('conversations are found, renamed, archived, restored and deleted', async () => {
  const page = await site.visit({ sub: 'collector' })
  await open(page)
  await ask(page, 'Blue ink', 'We have ultramarine.')
  await ask(page, 'Green ink', 'We have emerald.')
  await ask(page, 'Paper', 'We have plenty.')
  await press(page, 'Conversations')
  await expect.poll(() => titles(page)).toEqual(['Paper', 'Green ink', 'Blue ink'])
  const search = frameOf(page).getByRole('searchbox', { name: 'Search conversations' })
  await search.fill('ink')
  await expect.poll(() => titles(page)).toEqual(['Green ink', 'Blue ink'])
  await search.fill('ultramarine')
  await expect.poll(() => titles(page)).toEqual(['Blue ink'])
  await search.fill('nothing of this kind')
  await see(page, 'No conversation matches your search.')
  await search.fill('')
  await expect.poll(() => titles(page)).toHaveLength(3)

  await press(page, 'Rename “Green ink”')
  await frameOf(page).getByRole('textbox', { name: 'Title' }).fill('Emerald')
  await press(page, 'Save')
  await expect.poll(() => titles(page)).toEqual(['Paper', 'Emerald', 'Blue ink'])
  await press(page, 'Archive “Blue ink”')
  await expect.poll(() => titles(page)).toEqual(['Paper', 'Emerald'])
  await press(page, 'Archive')
  await expect.poll(() => titles(page)).toEqual(['Blue ink'])
  await press(page, 'Restore “Blue ink”')
  await see(page, 'You have no archived conversations.')
  await press(page, 'Recent')
  await expect.poll(() => titles(page)).toHaveLength(3)

  await press(page, 'Delete “Paper”')
  await see(page, 'Delete “Paper”? This can’t be undone.')
  await press(page, 'Cancel')
  await press(page, 'Delete “Paper”')
  await press(page, 'Delete')
  await expect.poll(() => titles(page)).toEqual(['Emerald', 'Blue ink'])
  await page.reload()
  await waitUntilConnected(page)
  await open(page)
  await press(page, 'Conversations')
  await expect.poll(() => titles(page), { message: 'the server did it all' }).toEqual(['Emerald', 'Blue ink'])
  await frameOf(page)
    .getByRole('button', { name: /^Emerald/ })
    .click()
  await see(page, 'We have emerald.')
  expect(await messages(page).allInnerTexts()).toEqual(['Green ink'])
})

test('what was typed in each conversation is there after a reload', async () => {
  const page = await site.visit({ sub: 'drafter' })
  await open(page)
  await ask(page, 'First', 'One.')
  await field(page).click()
  await page.keyboard.type('unsent in the first')
  await press(page, 'New conversation')
  await expect.poll(() => field(page).inputValue()).toBe('')
  await field(page).click()
  await page.keyboard.type('unsent in the second')
  await page.reload()
  await waitUntilConnected(page)
  await open(page)
  await expect.poll(() => field(page).inputValue()).toBe('unsent in the second')
  await press(page, 'Conversations')
  await frameOf(page)
    .getByRole('button', { name: /^First/ })
    .click()
  await expect.poll(() => field(page).inputValue()).toBe('unsent in the first')
})

test('a message is edited and an answer repeated, and both are replaced', async () => {
  const page = await site.visit({ sub: 'editor' })
  await open(page)
  await ask(page, 'How mny?', 'How many what?')
  site.expect({ text: ['Three.'] })
  await messages(page).hover()
  await press(page, 'Edit')
  const editing = frameOf(page).getByRole('textbox', { name: 'Edit your message' })
  await editing.fill('How many pens?')
  await press(page, 'Send again')
  await see(page, 'Three.')
  expect([await messages(page).allInnerTexts(), await texts(page)]).toEqual([['How many pens?'], ['Three.']])
  expect(JSON.stringify(site.model.requests.at(-1))).not.toContain('mny')
  site.expect({ text: ['Four.'] })
  await press(page, 'Answer again')
  await see(page, 'Four.')
  expect([await messages(page).allInnerTexts(), await texts(page)]).toEqual([['How many pens?'], ['Four.']])
  await page.reload()
  await waitUntilConnected(page)
  await open(page)
  await see(page, 'Four.')
  expect([await messages(page).allInnerTexts(), await texts(page)]).toEqual([['How many pens?'], ['Four.']])
})

test('an answer is rated, with a comment', async () => {
  const page = await site.visit({ sub: 'critic' })
  await open(page)
  await ask(page, 'Is it good?', 'It is perfect.')
  const feedback = async () => (await site.asAdmin('GET', '/feedback')).body.feedback
  await press(page, 'Good answer')
  await expect.poll(feedback).toMatchObject([{ rating: 'up', comment: null }])
  await press(page, 'Bad answer')
  await frameOf(page)
    .getByRole('textbox', { name: /^What was wrong with it/ })
    .fill('It is not.')
  await press(page, 'Send feedback')
  await see(page, 'Thank you for the feedback.')
  await expect.poll(feedback).toMatchObject([{ rating: 'down', comment: 'It is not.' }])
  await page.reload()
  await waitUntilConnected(page)
  await open(page)
  await frameOf(page).getByRole('button', { name: 'Bad answer', pressed: true }).waitFor()
})

test('the launcher says that there is an answer, until the panel is opened', async () => {
  const page = await site.visit({ sub: 'closer' })
  await open(page)
  const rest = Promise.withResolvers<void>()
  site.expect({ text: ['Here ', rest.promise, 'it is.'] })
  await write(page, 'Take your time')
  await see(page, 'Here')
  await press(page, 'Close')
  await launcher(page, 'Open the agent').waitFor()
  rest.resolve()
  await launcher(page, 'Open the agent: new activity').click()
  await see(page, 'Here it is.')
  await press(page, 'Close')
  await launcher(page, 'Open the agent').waitFor()
})

test('the page sends messages, starts conversations, and hears of messages and calls without their texts', async () => {
  const page = await site.visit({ sub: 'scripted' })
  site.expect({ calls: [{ name: 'refund', args: { order: 7, amount: 90 } }] }, { text: ['A secret.'] })
  await page.evaluate(`agent.send('Refund order 7')`)
  await launcher(page, 'Close the agent').waitFor()
  await choose(page, 'Allow once')
  await see(page, 'A secret.')
  await expect.poll(async () => (await heard(page, 'message')).map(({ role }) => role)).toEqual(['user', 'assistant'])
  const [sent, answered] = await heard(page, 'message')
  expect(answered?.threadId).toBe(sent?.threadId)
  expect(answered?.messageId).toMatch(/^[\da-f-]{36}$/)
  const calls = await heard(page, 'tool-call')
  expect(calls.map(({ tool, state }) => `${tool} ${state}`)).toEqual(['refund running', 'refund done'])
  expect(JSON.stringify(await page.evaluate('heard'))).not.toContain('secret')

  await page.evaluate('agent.newThread()')
  await see(page, 'What can I do for you?')
  expect(await messages(page).count()).toBe(0)
  site.expect({ text: ['Something else.'] })
  await page.evaluate(`agent.send('Something else?')`)
  await see(page, 'Something else.')
  await expect.poll(async () => (await heard(page, 'message')).length).toBe(4)
  const last = (await heard(page, 'message')).at(-1)
  expect(last?.threadId).not.toBe(sent?.threadId)
  expect(await frameOf(page).getByRole('heading', { level: 1 }).innerText()).toBe(agentName)
  for (const bad of [`''`, `' '`, `'x'.repeat(20_000)`, 'undefined'])
    await expect(page.evaluate(`agent.send(${bad})`)).rejects.toThrow('RangeError')
})
