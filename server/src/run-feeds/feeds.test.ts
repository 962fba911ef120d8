import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type AgentShop, startAgentShop } from '../../test/agent-shop.ts'
import { openChat } from '../../test/chat.ts'
import type { ScriptedModel } from '../../test/scripted-model.ts'
import { member } from '../../test/shop.ts'

let shop: AgentShop
let model: ScriptedModel
beforeAll(async () => {
  shop = await startAgentShop()
  model = shop.model
})
afterAll(() => shop.close())

/** A run that goes on until the test ends, or until `release`. */
async function startRun() {
  const { promise, resolve } = Promise.withResolvers<void>()
  model.follow(() => ({ text: ['One ', promise, 'two'] }))
  onTestFinished(() => resolve())
  const chat = openChat(await shop.page(member))
  const run = await chat.say('Count')
  await chat.until(run, ({ texts }) => texts[0] === 'One ')
  return { chat, run, release: () => resolve() }
}

test('a client that lost its socket gets the rest of a run, and not what it has', async () => {
  const { chat, run, release } = await startRun()
  const { attempt, n } = chat.run(run)
  const page = await shop.page(member)
  page.send({ type: 'chat/resume', request_id: 'r', thread_id: chat.thread, have: { run_id: run, attempt, n } })
  await page.next('chat/start')
  release()
  expect(await page.next('chat/chunk')).toMatchObject({ run_id: run, attempt, n, chunks: [{ delta: 'two' }] })
  expect(await page.next('chat/end')).toMatchObject({ run_id: run, status: 'succeeded' })
})

test('a client with nothing gets all of a run', async () => {
  const { chat, run, release } = await startRun()
  const other = openChat(await shop.page(member), chat.thread)
  await other.request({ type: 'chat/resume', thread_id: chat.thread }, 'chat/start')
  await other.until(run, ({ texts }) => texts[0] === 'One ')
  release()
  expect(await other.rest(run)).toMatchObject({ texts: ['One two'], end: { status: 'succeeded' } })
})

test('another user gets nothing of a run', async () => {
  const { chat, run, release } = await startRun()
  const page = await shop.page({ sub: 'other', email: 'other@demo.test', email_verified: true })
  const other = openChat(page)
  expect(await other.refusal({ type: 'chat/resume', thread_id: chat.thread })).toMatchObject({
    code: 'RESOURCE_NOT_FOUND',
  })
  release()
  await chat.rest(run)
  await page.settled()
  expect(page.unread('chat/chunk')).toEqual([])
  expect(page.unread('chat/end')).toEqual([])
})
