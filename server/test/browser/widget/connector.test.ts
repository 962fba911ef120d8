import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ShopService, startShop, useAssistant, visitShop } from './shop.ts'

let app: ShopService
beforeAll(async () => {
  app = await startShop()
})
afterAll(() => app.close())

test('whoever has the widget open acts at the company’s tool server, without ever signing in there', async () => {
  await visitShop(app.shopUrl, 'Demo Member')
  const assistant = await useAssistant(app, 'member@demo.test')
  const { content, isError } = await assistant.use('orders.list_orders')
  expect(isError ?? false).toBe(false)
  expect(JSON.parse((content[0] as { text: string }).text)).toEqual({
    orders: [
      { id: '1041', item: 'Enamel mug', status: 'shipped' },
      { id: '1042', item: 'Wool blanket', status: 'open' },
    ],
  })
})

test('whoever has not is told to open it', async () => {
  const assistant = await useAssistant(app, 'admin@demo.test')
  const { content, isError } = await assistant.use('orders.list_orders')
  expect(isError).toBe(true)
  expect(JSON.stringify(content)).toContain('Open a page with the widget')
})
