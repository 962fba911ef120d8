import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ChatSite, done, field, launcher, press, question, see, startChatSite, write } from './chat-site.ts'
import { frameOf } from './shop.ts'

let site: ChatSite
beforeAll(async () => {
  site = await startChatSite()
  await site.asAdmin('POST', '/organization-skills', {
    content: '---\nname: refunds\ndescription: How to refund an order\n---\nBe kind.',
  })
})
afterAll(() => site.close())

const note = (page: Page) => page.getByRole('textbox', { name: 'Note' })
const isFocused = (element: Locator) =>
  element.evaluate((node) => node === (node.getRootNode() as typeof node.ownerDocument).activeElement)
const expectFocus = (element: Locator) => expect.poll(() => isFocused(element)).toBe(true)

/** Labels of what has the focus in the panel, key by key. */
async function tabThrough(page: Page, key: 'Tab' | 'Shift+Tab', count: number): Promise<string[]> {
  const labels: string[] = []
  for (let n = 0; n < count; n += 1) {
    await page.keyboard.press(key)
    labels.push(
      await frameOf(page)
        .locator(':focus')
        .evaluate((element) => element.ariaLabel ?? element.textContent ?? ''),
    )
  }
  return labels
}

test('everything in the panel is used with the keyboard alone, and the focus returns to the launcher', async () => {
  const page = await site.visit({ sub: 'typist' })
  await launcher(page, 'Open the agent').focus()
  await page.keyboard.press('Enter')
  await expectFocus(field(page))
  site.expect({ text: ['Hello.'] })
  await page.keyboard.type('/')
  await frameOf(page).getByRole('option', { selected: true }).waitFor()
  await page.keyboard.press('Escape')
  await frameOf(page).getByRole('option').first().waitFor({ state: 'hidden' })
  await page.keyboard.press('Backspace')
  await page.keyboard.type('Hi')
  await page.keyboard.press('Enter')
  await see(page, 'Hello.')
  await frameOf(page).getByRole('button', { name: 'Answer again' }).waitFor()
  await expectFocus(field(page))

  const above = await tabThrough(page, 'Shift+Tab', 5)
  expect(above).toEqual(['Answer again', 'Bad answer', 'Good answer', 'Copy', 'Edit'])
  const below = await tabThrough(page, 'Tab', 5)
  expect(below).toEqual(['Copy', 'Good answer', 'Bad answer', 'Answer again', 'Message to the agent'])

  await frameOf(page).getByRole('button', { name: 'Conversations', exact: true }).focus()
  await page.keyboard.press('Enter')
  await expectFocus(frameOf(page).getByRole('button', { name: 'Back to the chat' }))
  await page.keyboard.press('Enter')
  await expectFocus(field(page))
  await page.keyboard.press('Escape')
  await expectFocus(launcher(page, 'Open the agent'))
  await page.keyboard.press('Enter')
  await see(page, 'Hello.')
  await expectFocus(field(page))
})

test('a question is edited and answered with the keyboard', async () => {
  const page = await site.visit({ sub: 'decider' })
  await launcher(page, 'Open the agent').focus()
  await page.keyboard.press('Enter')
  await expectFocus(field(page))
  site.expect({ calls: [{ name: 'refund', args: { order: 7, amount: 900 } }] }, { text: ['Done.'] })
  await page.keyboard.type('Refund order 7')
  await page.keyboard.press('Enter')
  await question(page).waitFor()
  await expectFocus(field(page))
  expect(await tabThrough(page, 'Shift+Tab', 3)).toEqual(['More options', 'Decline', 'Allow once'])
  await page.keyboard.press('Shift+Tab')
  await page.keyboard.press('Shift+Tab')
  await expectFocus(question(page).getByRole('textbox', { name: 'Amount' }))
  await page.keyboard.press('Control+a')
  await page.keyboard.type('90')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Tab')
  await expectFocus(question(page).getByRole('button', { name: 'Allow once' }))
  await expect.poll(() => question(page).getByRole('button', { name: 'Allow once' }).isEnabled()).toBe(true)
  await page.keyboard.press('Enter')
  await see(page, 'Done.')
  expect(await done(page)).toEqual(['Refunded 90 for order 7'])
})

test.each(['pip', 'inline', 'fullscreen'] as const)(
  'in %s mode, nothing takes the focus from the page while an answer or a question arrives',
  async (mode) => {
    const page = await site.visit({ sub: `absent-${mode}`, mode })
    if (mode !== 'inline') await launcher(page, 'Open the agent').click()
    const rest = Promise.withResolvers<void>()
    site.expect(
      { text: ['One moment. ', rest.promise, 'Now:'], calls: [{ name: 'refund', args: { order: 7, amount: 90 } }] },
      { text: ['Done.'] },
    )
    await write(page, 'Refund order 7')
    await see(page, 'One moment.')
    // A panel over the whole page is closed first.
    if (mode === 'fullscreen') await press(page, 'Close')
    await note(page).click()
    await page.keyboard.type('I am ')
    rest.resolve()
    if (mode === 'fullscreen') await launcher(page, 'Open the agent: 1 waiting for approval').waitFor()
    else await question(page).getByRole('button', { name: 'Allow once' }).click({ trial: true })
    await page.keyboard.type('typing')
    await page.keyboard.press('Enter')
    expect(await note(page).inputValue()).toBe('I am typing')
    await expectFocus(note(page))
    expect(await done(page), 'Enter didn’t answer the question').toEqual([])
  },
)
