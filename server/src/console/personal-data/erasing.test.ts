import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startAgentShop } from '../../../test/agent-shop.ts'
import { openChat } from '../../../test/chat.ts'

/** A user's page, and a model whose replies don't end. */
async function converse() {
  const shop = await startAgentShop(() => ({ text: ['Hello'], ending: 'stall' }))
  onTestFinished(() => shop.close())
  const page = await shop.page({ sub: randomUUID(), email: 'erased@demo.test' })
  const rows = <Row>(read: Parameters<typeof shop.service.database.asOrg<Row[]>>[1]) =>
    shop.service.database.asOrg(shop.demo, read)
  return {
    rows,
    async begin() {
      const chat = openChat(page)
      const run = await chat.say('Hi')
      await chat.until(run, ({ texts }) => texts[0] === 'Hello')
    },
    erase: () => shop.request('DELETE', `/end-users/${page.ready.user?.id}`, { token: shop.admin }),
    usage: () => rows((sql) => sql`select end_user_id, thread_id, is_estimated, finish_reason from usage_events`),
    reserved: () => rows((sql) => sql`select scope from budget_periods where reserved_tokens > 0`),
  }
}

const interrupted = { end_user_id: null, thread_id: null, is_estimated: true, finish_reason: 'failed: interrupted' }

test('an end user who is erased during a run is charged for it, and nothing stays reserved', async () => {
  const { begin, erase, usage, reserved } = await converse()
  await begin()
  expect(await reserved()).not.toEqual([])
  expect(await erase()).toMatchObject({ status: 200 })
  expect(await usage()).toEqual([interrupted])
  expect(await reserved()).toEqual([])
})

test('the same for a run that begins while the end user is being erased', async () => {
  const { rows, begin, erase, usage, reserved } = await converse()
  await begin()
  const { promise: begun, resolve } = Promise.withResolvers<void>()
  // Holds the erasure after it has ended the first run.
  const holding = rows(async (sql) => {
    await sql`select pg_advisory_xact_lock(hashtextextended('usage_events:' || current_organization(), 0))`
    await begun
    return []
  })
  const erasing = erase()
  await vi.waitFor(async () => {
    const waiting = await rows((sql) => sql`select from pg_locks where locktype = 'advisory' and not granted`)
    expect(waiting).toHaveLength(1)
  })
  await begin().finally(resolve)
  await holding
  expect(await erasing).toMatchObject({ status: 200 })
  expect(await usage()).toEqual([interrupted, interrupted])
  expect(await reserved()).toEqual([])
})
