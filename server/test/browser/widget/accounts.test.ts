import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { usePage } from '../chromium.ts'
import { type ChatSite, choose, launcher, press, see, startChatSite, write } from './chat-site.ts'
import { frameOf } from './shop.ts'

/** Another installation is the third party, with a real MCP endpoint and authorization server. */
let site: ChatSite
let third: HttpService
beforeAll(async () => {
  site = await startChatSite()
  third = await startHttpService()
  await site.asAdmin('POST', '/connectors', { name: 'third', kind: 'oauth', server_url: `${third.url}/mcp` })
})
afterAll(async () => {
  await site.close()
  await third.close()
})

const offer = (page: Page) => frameOf(page).getByRole('region', { name: 'Connect third' })

/** Asks the agent for something that needs the account, and follows the link that it shows. */
async function askAndFollow(sub: string): Promise<{ page: Page; tab: Page }> {
  const page = await site.visit({ sub })
  await launcher(page, 'Open the agent').click()
  site.expect({ calls: [{ name: 'connect_third', args: {} }] }, { text: ['Please connect your account.'] })
  await write(page, 'Who am I at third?')
  const link = offer(page).getByRole('link', { name: 'Connect third' })
  const [tab] = await Promise.all([page.context().waitForEvent('page'), link.click()])
  await tab.getByRole('heading', { name: 'Connect third?' }).waitFor()
  return { page, tab }
}

/** Allows access at the third party, and returns to the site. */
async function allow(tab: Page): Promise<void> {
  await tab.getByRole('button', { name: 'Connect', exact: true }).click()
  await tab.getByRole('link', { name: /^Continue to / }).click()
  await tab.getByRole('button', { name: 'admin@other.test' }).click()
  await tab.getByRole('button', { name: 'Allow' }).click()
}

test('a user connects an account from the chat in a new tab, and continues', async () => {
  const { page, tab } = await askAndFollow('casey')
  expect(await tab.evaluate('window.opener'), 'the new tab can’t reach the chat').toBeNull()
  await tab.getByText('Continue only if you are casey@demo.test').waitFor()
  await allow(tab)
  await frameOf(tab).getByRole('status').filter({ hasText: 'third is connected.' }).waitFor()
  expect(new URL(tab.url()).searchParams.has('inlay_connect'), 'the code isn’t left in the URL').toBe(false)

  site.expect({ calls: [{ name: 'third_get_profile', args: {} }] }, { text: ['You are an admin.'] })
  await press(page, 'Continue')
  await see(page, 'I’ve connected third.')
  await site.confirm('casey')
  await choose(page, 'Allow once')
  await see(page, 'You are an admin.')
  expect(await offer(page).count(), 'the offer is gone').toBe(0)
  expect(JSON.stringify(site.model.requests.at(-1)?.messages)).toContain('admin@other.test')
})

test('a link that is followed where another user is signed in connects nothing', async () => {
  const { tab } = await askAndFollow('mallory')
  const link = tab.url()
  const victim = await usePage()
  await victim.route('**/?*sub=mallory*', (route) =>
    route.continue({ url: route.request().url().replace('sub=mallory', 'sub=victim') }),
  )
  await victim.addInitScript(`history.replaceState(null, '', location.href.replace('sub=mallory', 'sub=victim'))`)
  await victim.goto(link)
  await allow(victim)
  await frameOf(victim).getByRole('alert').filter({ hasText: 'is another user’s' }).waitFor()
  await victim.evaluate(`document.documentElement.lang = 'de'`)
  await frameOf(victim).getByRole('alert').filter({ hasText: 'gehört einem anderen Nutzer' }).waitFor()
  const consents = await site.service.database.asOrg(
    await site.organization('demo'),
    (sql) =>
      sql`select from end_user_consents c join end_users u on u.id = c.end_user_id where u.external_id <> 'casey'`,
  )
  expect(consents).toEqual([])
})
