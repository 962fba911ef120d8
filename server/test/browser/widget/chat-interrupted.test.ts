import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { usePage } from '../chromium.ts'
import {
  answers,
  type ChatSite,
  choose,
  done,
  field,
  launcher,
  messages,
  press,
  question,
  see,
  seeAnswer,
  startChatSite,
  write,
} from './chat-site.ts'
import { frameOf, waitUntilConnected } from './shop.ts'

let site: ChatSite
beforeAll(async () => {
  site = await startChatSite()
})
afterAll(() => site.close())

const open = (page: Page) => launcher(page, 'Open the agent').click()
const refund = { calls: [{ name: 'refund', args: { order: 7, amount: 90 } }] }
const refunded = ['Refunded 90 for order 7']

/** The model stops in the middle of a sentence until the test lets it go on. */
function halfAnswer() {
  const rest = Promise.withResolvers<void>()
  site.expect({ text: ['The first half, ', rest.promise, 'and the second half.'] })
  return rest
}
const whole = 'The first half, and the second half.'

const texts = (page: Page) => answers(page).locator('.text').allInnerTexts()

describe('a reload', () => {
  test('in the middle of an answer shows the rest of it', async () => {
    const page = await site.visit({ sub: 'reload-answer' })
    await open(page)
    const rest = halfAnswer()
    await write(page, 'Tell me')
    await see(page, 'The first half,')
    await page.reload()
    await waitUntilConnected(page)
    await open(page)
    await see(page, 'The first half,')
    rest.resolve()
    await see(page, whole)
    expect(await messages(page).allInnerTexts()).toEqual(['Tell me'])
    expect(await texts(page)).toEqual([whole])
  })

  test('in the middle of a question asks again, and the launcher says so before the panel is opened', async () => {
    const page = await site.visit({ sub: 'reload-question' })
    await open(page)
    site.expect(refund, { text: ['Done.'] })
    await write(page, 'Refund order 7')
    await question(page).getByRole('textbox', { name: 'Amount' }).waitFor()
    await page.reload()
    await launcher(page, 'Open the agent: 1 waiting for approval').click()
    expect(await question(page).getByRole('textbox', { name: 'Amount' }).inputValue()).toBe('90')
    await choose(page, 'Allow once')
    await see(page, 'Done.')
    expect(await done(page)).toEqual(refunded)
  })
})

describe('a lost connection', () => {
  test('in the middle of an answer is shown within ten seconds; a message typed meanwhile is sent later', async () => {
    const page = await usePage()
    await page.clock.install()
    await site.enter(page, { sub: 'offline-answer' })
    await open(page)
    const rest = halfAnswer()
    await write(page, 'Tell me')
    await see(page, 'The first half,')
    await page.context().setOffline(true)
    await page.clock.runFor(9_500)
    await see(page, 'You’re offline. Your messages are sent as soon as you’re back.')
    await write(page, 'And then?')
    await messages(page).filter({ hasText: 'Sent when you’re back online' }).waitFor()
    expect(await field(page).inputValue()).toBe('')
    await page.context().setOffline(false)
    await messages(page).filter({ hasText: 'The agent reads this at its next step' }).waitFor()
    site.expect({ text: ['Then it was over.'] })
    rest.resolve()
    await see(page, 'Then it was over.')
    expect(await frameOf(page).getByRole('log').innerText()).toMatch(
      /^Conversation\s+Tell me\s+The first half, and the second half\.\s+And then\?\s+Then it was over\.$/,
    )
    await frameOf(page).getByText('You’re offline.').waitFor({ state: 'hidden' })
  })

  test('in the middle of a question keeps it, and its answer arrives later', async () => {
    const page = await site.visit({ sub: 'offline-question' })
    await open(page)
    site.expect(refund, { text: ['Done.'] })
    await write(page, 'Refund order 7')
    await question(page).waitFor()
    await page.context().setOffline(true)
    await see(page, 'You’re offline.')
    await choose(page, 'Allow once')
    expect(await done(page), 'the server doesn’t know yet').toEqual([])
    await page.context().setOffline(false)
    await see(page, 'Done.')
    expect(await done(page)).toEqual(refunded)
  })
})

describe('a second tab', () => {
  /** Opens the same conversation in another tab of the browser. */
  async function openSecondTab(page: Page, sub: string, title: string): Promise<Page> {
    const other = await site.enter(await page.context().newPage(), { sub })
    await open(other)
    await frameOf(other).getByRole('button', { name: 'Conversations', exact: true }).click()
    await frameOf(other)
      .getByRole('button', { name: new RegExp(`^${title}`) })
      .click()
    return other
  }

  async function openBothDuringAnswer(sub: string) {
    const page = await site.visit({ sub })
    await open(page)
    const rest = halfAnswer()
    await write(page, 'Tell me')
    await see(page, 'The first half,')
    const other = await openSecondTab(page, sub, 'Tell me')
    await see(other, 'The first half,')
    return { page, other, rest }
  }

  test('follows the answer, and so does the first tab when the user writes in the second', async () => {
    const { page, other, rest } = await openBothDuringAnswer('tabs-answer')
    rest.resolve()
    for (const tab of [page, other]) await see(tab, whole)
    site.expect({ text: ['More.'] })
    await write(other, 'Go on')
    for (const tab of [page, other]) {
      await see(tab, 'More.')
      expect(await messages(tab).locator('.bubble').allInnerTexts()).toEqual(['Tell me', 'Go on'])
      expect(await texts(tab)).toEqual([whole, 'More.'])
    }
    site.expect({ text: ['Less.'] })
    await page.bringToFront()
    await messages(page).last().hover()
    await press(page, 'Edit')
    await frameOf(page).getByRole('textbox', { name: 'Edit your message' }).fill('Stop')
    await press(page, 'Send again')
    for (const tab of [page, other]) {
      await see(tab, 'Less.')
      expect(await messages(tab).locator('.bubble').allInnerTexts()).toEqual(['Tell me', 'Stop'])
      expect(await texts(tab)).toEqual([whole, 'Less.'])
    }
  })

  test('in which the user writes during an answer: the first tab says so', async () => {
    const { page, other, rest } = await openBothDuringAnswer('tabs-during')
    await write(other, 'Go on')
    await see(other, 'The agent reads this at its next step')
    site.expect({ text: ['More.'] })
    rest.resolve()
    for (const tab of [page, other]) await seeAnswer(tab, 'More.')
    const notice = (tab: Page) => answers(tab).getByText('Continued in another tab').count()
    expect([await notice(page), await notice(other)]).toEqual([1, 0])
    for (const tab of [page, other]) expect(await answers(tab).locator('.bubble').allInnerTexts()).toEqual(['Go on'])
  })

  test('that deletes the conversation leaves the first tab a new one, with what its user writes', async () => {
    const page = await site.visit({ sub: 'tabs-delete' })
    await open(page)
    site.expect({ text: ['Hello.'] })
    await write(page, 'Hello')
    await see(page, 'Hello.')
    const other = await openSecondTab(page, 'tabs-delete', 'Hello')
    await see(other, 'Hello.')
    await press(other, 'Conversations')
    await press(other, 'Delete “Hello”')
    await press(other, 'Delete')
    await see(other, 'You have no conversations yet.')
    await page.bringToFront()
    await write(page, 'Are you still there?')
    await see(page, 'This conversation was deleted. You can send the message in a new one.')
    site.expect({ text: ['I am.'] })
    await press(page, 'Try again')
    await see(page, 'I am.')
    expect(await messages(page).allInnerTexts()).toEqual(['Are you still there?'])
  })

  test('that is a copy of the first shows the same conversation, and both stay connected', async () => {
    const page = await site.visit({ sub: 'tabs-copy' })
    await open(page)
    site.expect({ text: ['Hello.'] })
    await write(page, 'Hello')
    await seeAnswer(page, 'Hello.')
    const opened = page.context().waitForEvent('page')
    await page.evaluate('void window.open(location.href)')
    const copy = await opened
    await waitUntilConnected(copy)
    await open(copy)
    await see(copy, 'Hello.')
    for (const [index, tab] of [copy, page].entries()) {
      site.expect({ text: [`Answer ${index}`] })
      await tab.bringToFront()
      await write(tab, `Question ${index}`)
      for (const each of [page, copy]) await see(each, `Answer ${index}`)
      // Only the other tab says so, and only until the user writes there.
      const other = tab === page ? copy : page
      await messages(other).last().getByText('Continued in another tab').waitFor()
      const notice = (each: Page) => frameOf(each).getByText('Continued in another tab').count()
      expect([await notice(other), await notice(tab)]).toEqual([1, 0])
    }
  })

  test.each([
    ['the first', 0],
    ['the second', 1],
  ])('shows the question, which is answered once, in %s tab', async (_, index) => {
    const sub = `tabs-question-${index}`
    const page = await site.visit({ sub })
    await open(page)
    site.expect(refund, { text: ['Done.'] })
    await write(page, 'Refund order 7')
    await question(page).waitFor()
    const other = await openSecondTab(page, sub, 'Refund order 7')
    await question(other).waitFor()
    const tab = index === 0 ? page : other
    await tab.bringToFront()
    await choose(tab, 'Allow once')
    for (const each of [page, other]) {
      await see(each, 'Done.')
      expect(await question(each).count()).toBe(0)
    }
    expect([...(await done(page)), ...(await done(other))], 'in the tab where the user had written').toEqual(refunded)
    expect(await done(page)).toEqual(refunded)
  })
})
