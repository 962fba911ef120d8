import type { Locator } from 'playwright-core'
import { expect } from 'vitest'
import {
  answers,
  type ChatSite,
  choose,
  done,
  field,
  launcher,
  press,
  question,
  see,
  startChatSite,
  write,
} from './chat-site.ts'
import { frameOf } from './shop.ts'

/** A site with a tool server, a skill, and a tool that the agent may never use. */
export async function startEquippedSite(): Promise<ChatSite> {
  const site = await startChatSite()
  await site.addConnector()
  const skill = ['---', 'name: refunds', 'description: How to refund an order', '---', 'Ask crm who the user is.']
  await site.asAdmin('POST', '/organization-skills', { content: skill.join('\n') })
  await site.asAdmin('PATCH', '/agent/config', { tool_policies: { delete_account: 'never' } })
  return site
}

/** Opens a card, which is the details of a call. */
async function expectCard(card: Locator, text: RegExp): Promise<void> {
  await card.locator('summary').click()
  await expect.poll(() => card.innerText()).toMatch(text)
}

/** A user talks to the agent, which uses tools of the page and of a tool server. */
export async function converse(site: ChatSite, mode: 'pip' | 'inline' | 'fullscreen'): Promise<void> {
  const page = await site.visit({ sub: `person-${mode}`, mode })
  if (mode !== 'inline') await launcher(page, 'Open the agent').click()
  const panel = frameOf(page)
  await see(page, 'What can I do for you?')
  await see(page, '2 tools on this page · 1 service')

  site.expect({ text: ['Refunds take ', '**two days**.'] })
  await field(page).click()
  await page.keyboard.type('/ref')
  await panel.getByRole('option', { name: '/refunds How to refund an order' }).waitFor()
  await page.keyboard.press('Enter')
  await panel.getByRole('button', { name: 'Remove the skill refunds' }).waitFor()
  await page.keyboard.type('How long does it take?')
  await page.keyboard.press('Enter')
  await answers(page).filter({ hasText: 'Refunds take two days.' }).waitFor()
  expect(await answers(page).locator('strong').innerText()).toBe('two days')
  expect(JSON.stringify(site.model.requests.at(-1)), 'the model has the skill').toContain('Ask crm who the user is.')

  const stillWriting = Promise.withResolvers<void>()
  site.expect(
    { calls: [{ name: 'refund', args: { order: 7, amount: 900 } }] },
    { calls: [{ name: 'delete_account', args: {} }] },
    { calls: [{ name: 'crm_whoami', args: {} }] },
    { text: ['I refunded order seven, and now ', stillWriting.promise, 'I am done.'] },
  )
  await write(page, 'Refund order 7')
  const asking = question(page)
  await asking.getByText('It may change something here.').waitFor()
  expect(await asking.getByRole('heading').innerText()).toBe('Allow “Refund an order”?')
  await asking.getByRole('textbox', { name: 'Amount' }).fill('9.5')
  await asking.getByRole('alert').filter({ hasText: 'Enter a whole number.' }).waitFor()
  await asking.getByRole('textbox', { name: 'Amount' }).fill('90')
  expect(await done(page), 'nothing runs without approval').toEqual([])
  await choose(page, 'Allow once')
  const whoami = frameOf(page).getByRole('region', { name: 'Allow “whoami”?' })
  await whoami.getByText(/Which tool the agent uses can tell http\S+ something about it\.$/).waitFor()
  const hint = whoami.getByText(/^(First confirm|You can’t allow this here)/)
  await hint.waitFor()
  await site.confirm(`person-${mode}`)
  await hint.waitFor({ state: 'detached' })
  await choose(page, 'Allow once')

  await see(page, 'I refunded order seven, and now')
  expect(await done(page)).toEqual(['Refunded 90 for order 7'])
  const cards = answers(page)
    .last()
    .getByRole('group')
    .filter({ has: panel.locator('summary') })
  await expect.poll(() => cards.count()).toBe(3)
  const [refund, refused, connected] = (await cards.all()) as [Locator, Locator, Locator]
  expect(await refund.innerText()).toMatch(/Done\s+Refund an order\s+on this page\s+\d+[.]\d s/)
  await expectCard(refund, /"amount": 900[\s\S]*as you changed it[\s\S]*"amount": 90\s[\s\S]*Refunded 90 for order 7/)
  await expectCard(refused, /Failed[\s\S]*delete_account[\s\S]*(administrator|organization)/)
  await expectCard(connected, new RegExp(`Done[\\s\\S]*whoami[\\s\\S]*crm[\\s\\S]*person-${mode}`))
  const told = JSON.stringify(site.model.requests.at(-1)?.messages).replaceAll('\\', '')
  expect(told).toContain('"amount":90}')

  const abortedBefore = site.model.aborted()
  await press(page, 'Stop')
  await see(page, 'You stopped this answer.')
  await expect.poll(() => site.model.aborted(), { message: 'the model too' }).toBe(abortedBefore + 1)
  stillWriting.resolve()

  site.expect({ text: ['It is done.'] })
  await write(page, 'Go on')
  await answers(page).last().getByText('It is done.').waitFor()
  expect(await done(page), 'once').toEqual(['Refunded 90 for order 7'])
  expect(await panel.getByText('I am done.').count()).toBe(0)
}
