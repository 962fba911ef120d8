import { afterAll, beforeAll, expect, test } from 'vitest'
import { answers, type ChatSite, done, launcher, press, question, see, write } from './chat-site.ts'
import { converse, startEquippedSite } from './conversation.ts'
import { clickChoice, frameOf, waitUntilConnected } from './shop.ts'

let site: ChatSite
beforeAll(async () => {
  site = await startEquippedSite()
})
afterAll(() => site.close())

test('a whole conversation in pip mode', () => converse(site, 'pip'))

test('a question that the user stops is no failure, and the page’s language applies to its reason', async () => {
  const page = await site.visit({ sub: 'person-who-stops' })
  await launcher(page, 'Open the agent').click()
  const refund = { name: 'refund', args: { order: 1, amount: 10 } }
  site.expect({ calls: [{ name: 'delete_account', args: {} }, refund] })
  await write(page, 'Refund it')
  await question(page).getByText('Why you’re asked: This conversation contains text from http').waitFor()
  await page.evaluate(`document.documentElement.lang = 'de'`)
  const asked = frameOf(page).getByRole('region', { name: '„Refund an order“ erlauben?' })
  await asked.getByText('Es kann hier etwas ändern.').waitFor()
  await asked.getByText(/^Warum Sie gefragt werden: Diese Unterhaltung enthält Text von http.* sendet\.$/).waitFor()
  await page.evaluate(`document.documentElement.lang = 'en'`)
  await press(page, 'Stop')
  await see(page, 'You stopped this answer.')
  const cards = answers(page).getByRole('group')
  const expectCards = () =>
    expect
      .poll(() => cards.allInnerTexts())
      .toEqual([expect.stringContaining('Failed'), expect.stringContaining('Stopped')])
  await expectCards()
  await page.reload()
  await waitUntilConnected(page)
  await launcher(page, 'Open the agent').click()
  await expectCards()
  expect(await done(page)).toEqual([])
})

test('several questions are asked one after the other, and the model learns of each answer', async () => {
  const page = await site.visit({ sub: 'person-asked-twice' })
  await launcher(page, 'Open the agent').click()
  const order = (number: number) => ({ name: 'refund', args: { order: number, amount: 10 } })
  site.expect({ calls: [order(1), order(2)] }, { text: ['One of two.'] })
  await write(page, 'Refund both')
  const first = question(page).filter({ hasText: '1 of 2' })
  await first.waitFor()
  await see(page, 'Comes next, after the question above')
  expect(await question(page).count(), 'only the first can be answered').toBe(1)
  await first.getByRole('button', { name: 'Decline' }).hover()
  await first.getByRole('button', { name: 'Decline' }).dblclick()
  await first.waitFor({ state: 'hidden' })
  expect(await question(page).getByRole('textbox', { name: 'Order' }).inputValue()).toBe('2')
  await clickChoice(question(page).getByRole('button', { name: 'Allow once' }))
  await see(page, 'One of two.')
  expect(await done(page)).toEqual(['Refunded 10 for order 2'])
  const cards = answers(page).getByRole('group')
  expect(await cards.allInnerTexts()).toEqual([expect.stringContaining('Declined'), expect.stringContaining('Done')])
  const results = site.model.requests.at(-1)?.messages.filter(({ role }) => role === 'tool')
  expect(results).toMatchObject([
    { content: expect.stringMatching(/declined/i) },
    { content: expect.stringContaining('Refunded 10 for order 2') },
  ])
})
