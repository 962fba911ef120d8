import { afterAll, beforeAll } from 'vitest'
import { type ShopService, startShop } from './shop.ts'
import { describeTools } from './shop-tools.ts'
import { webMcpForms } from './web-mcp.ts'

let app: ShopService
beforeAll(async () => {
  app = await startShop()
})
afterAll(() => app.close())

/** The installed browser's form is in shop.test.ts. */
for (const form of Object.keys(webMcpForms) as (keyof typeof webMcpForms)[])
  if (form !== 'native') describeTools(form, () => app)
