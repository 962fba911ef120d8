import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import { useScriptedModel } from '../../../test/scripted-model.ts'
import { member, startShop } from '../../../test/shop.ts'

test.each([
  ['cost less, if the model has a price for them', { cached_prompt_micro_usd_per_million: 100_000 }, 600 + 40 + 20],
  ['cost the same as others without one', {}, 1_000 + 20],
])('prompt tokens that the provider had cached %s', async (_, cached, cost) => {
  const folder = mkdtempSync(join(tmpdir(), 'inlay-prices-'))
  const path = join(folder, 'prices.json')
  const price = { prompt_micro_usd_per_million: 1_000_000, completion_micro_usd_per_million: 2_000_000 }
  writeFileSync(path, JSON.stringify([{ models: ['scripted'], ...price, ...cached }]))
  const usage = { prompt_tokens: 1_000, completion_tokens: 10, prompt_tokens_details: { cached_tokens: 400 } }
  const model = await useScriptedModel(() => ({ text: ['Hello'], usage }))
  const shop = await startShop({ MODEL_URL: model.url, MODEL_NAME: 'scripted', INLAY_MODEL_PRICES: path })
  onTestFinished(async () => {
    await shop.close()
    rmSync(folder, { recursive: true })
  })
  const chat = openChat(await shop.page(member))
  await chat.rest(await chat.say('Hi'), 'succeeded')
  const recorded = await shop.service.database.asOrg(
    await shop.organization('demo'),
    (sql) => sql`select prompt_tokens, completion_tokens, cost_micro_usd from usage_events where model = 'scripted'`,
  )
  expect(recorded, 'the tokens stay as reported').toEqual([
    { prompt_tokens: 1_000, completion_tokens: 10, cost_micro_usd: cost },
  ])
  const [counter] = await shop.service.database.asOrg(
    await shop.organization('demo'),
    (sql) => sql`select cost_micro_usd from budget_periods where scope = 'organization' and period = 'day'`,
  )
  expect(counter).toEqual({ cost_micro_usd: cost })
})
