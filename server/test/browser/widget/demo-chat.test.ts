import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startExamples } from '../../../../examples/examples.ts'
import { openChat } from '../../chat.ts'
import { openPage } from '../../page.ts'
import { type ShopService, startShop, visitShop } from './shop.ts'

/** The example shop's conversation, without a model server: the page and the connector are real. */

let app: ShopService
beforeAll(async () => {
  app = await startShop()
})
afterAll(() => app.close())

const cart = (page: Page) => page.getByRole('region', { name: 'Cart' }).getByRole('listitem').allInnerTexts()

/** Talks to the agent as the user who has the shop open. */
async function talk(page: Page) {
  const publishable_key = await page.locator('inlay-agent').getAttribute('data-key')
  const { idToken } = await page.evaluate<{ idToken?: string }>(`fetch('/session').then((response) => response.json())`)
  const origin = app.shopUrl
  const { body } = await app.request('POST', '/auth/pk-ticket', {
    headers: { origin },
    body: { publishable_key, ...(idToken && { id_token: idToken }) },
  })
  const hello = { tab_id: 'chat', url: `${origin}/`, visitor_secret: crypto.randomUUID() }
  return openChat(await openPage(app.local, body.ticket, { origin, hello }))
}

test('a customer finds a product, adds it to the cart with approval, and asks about an order', async () => {
  const page = await visitShop(app.shopUrl, 'Casey Customer')
  const chat = await talk(page)
  const agent = await chat.request({ type: 'chat/about' }, 'chat/agent')
  expect(agent).toMatchObject({ greeting: expect.stringMatching(/Hello/), connector_count: 1, problem: null })
  const [find = '', add = '', order = ''] = agent.starter_prompts

  const found = await chat.rest(await chat.say(find), 'succeeded')
  expect(found.texts).toEqual([
    'I found 1 product:\n\n| Id | Name | Price |\n| --- | --- | --- |\n| ink-blue | Ink, blue | € 9.00 |',
  ])

  const adding = await chat.say(add)
  const asked = await chat.rest(adding, 'waiting')
  expect(asked.calls).toMatchObject([
    { name: 'add_to_cart', input: { product_id: 'ink-blue', quantity: 2 }, question: expect.any(String) },
  ])
  expect(await cart(page), 'nothing runs without approval').toEqual([])
  await chat.request({ type: 'chat/decide', call_id: asked.calls[0]?.id, approved: true }, 'chat/done')
  const added = await chat.rest(adding, 'succeeded')
  expect(added.texts).toEqual(['Done.\n\n- **Items:** ink-blue: 2\n- **Total:** € 18.00'])
  expect(await cart(page)).toEqual(['2 × Ink, blue'])

  const asking = await chat.rest(await chat.say(order), 'succeeded')
  expect(asking.calls).toMatchObject([{ name: 'orders_list_orders', question: undefined }])
  expect(asking.texts).toEqual(['Order 1041 (Enamel mug) is **shipped**.'])
})

test('a shop on another port updates the agent’s settings, unless a developer has changed them', async () => {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const read = async () => (await app.request('GET', '/agent/config', { token })).body
  const groups = async () => {
    const examples = await startExamples({ inlayUrl: app.url, token: async () => token })
    onTestFinished(() => examples.stop())
    expect((await fetch(examples.shopUrl)).status).toBe(200)
    return [[examples.shopUrl, examples.toolServerUrl]]
  }
  const first = await groups()
  expect(await read()).toMatchObject({ origin_groups: first, anonymous: { is_enabled: true } })
  await app.request('PATCH', '/agent/config', { token, body: { greeting: 'Ours' } })
  await groups()
  expect(await read()).toMatchObject({ greeting: 'Ours', origin_groups: first })
})
