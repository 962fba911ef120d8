import { expect, onTestFinished, test, vi } from 'vitest'
import { type ChatPage, openChat } from '../../../test/chat.ts'
import { offer } from '../../../test/page.ts'
import { type Script, useScriptedModel } from '../../../test/scripted-model.ts'
import { member, startShop } from '../../../test/shop.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { runLimits } from './work.ts'

async function converse(script: Script) {
  const model = await useScriptedModel(script)
  const shop = await startShop({ MODEL_URL: model.url, MODEL_NAME: 'scripted' })
  onTestFinished(() => shop.close())
  const page = await shop.page(member)
  return { shop, page, chat: openChat(page) }
}

test('a call that may have been carried out in an earlier run is not repeated without asking', async () => {
  const { shop, page, chat } = await converse(() => ({ calls: [{ name: 'visit', args: { id: 7 } }] }))
  const token = await shop.tokenFor('admin@demo.test', 'demo')
  await shop.request('PATCH', '/agent/config', { token, body: { tool_policies: { visit: 'auto' } } })
  await offer(page, 'visit')
  const stopped = await chat.say('Visit it')
  await page.next('tool/call')
  await chat.request({ type: 'chat/abort', thread_id: chat.thread }, 'chat/done')
  await chat.rest(stopped, 'stopped')
  expect(await reasonsIn(chat), 'clients tell it from a failure').toEqual([{ code: 'STOPPED' }])
  const { calls } = await chat.rest(await chat.say('Try again'), 'waiting')
  expect(calls[0]?.question).toContain('may already have been carried out')
  expect(page.unread('tool/call')).toEqual([])
  expect(await reasonsIn(chat)).toEqual([{ code: 'STOPPED' }, { code: 'INTERRUPTED_BEFORE' }])
  await chat.request({ type: 'chat/abort', thread_id: chat.thread }, 'chat/done')
  expect((await reasonsIn(chat)).at(-1), 'a question that the user stopped').toEqual({ code: 'STOPPED' })
})

/** The reasons of all calls in the thread, as clients can translate them. */
async function reasonsIn(chat: ChatPage): Promise<unknown[]> {
  const { messages } = await chat.request({ type: 'chat/messages', thread_id: chat.thread }, 'chat/message-list')
  const chunks = messages.flatMap((message) => (message.role === 'assistant' ? message.chunks : []))
  return chunks.flatMap(({ type, data }) => (type === 'data-reason' ? [data] : []))
}

test('a run that is stopped just before it asks does not ask', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { shop, page, chat } = await converse(() => ({
    text: ['Let me see', promise],
    calls: [{ name: 'empty_cart', args: {} }],
  }))
  await offer(page, 'empty_cart')
  const run = await chat.say('Empty it')
  await chat.until(run, ({ texts }) => texts[0] === 'Let me see')
  // As if the message to the run's node were lost.
  await shop.service.database.asOrg(
    await shop.organization('demo'),
    (sql) => sql`update runs set stop_requested_at = now() where id = ${run}`,
  )
  resolve()
  expect((await chat.rest(run)).end?.status).toBe('stopped')
})

test.each<[string, { worked_ms?: number; epoch?: number }]>([
  ['working time', { worked_ms: runLimits.workMs + 1 }],
  ['beginnings', { epoch: runLimits.beginnings + 1 }],
])('a run that has used up its %s ends before the next step', async (_, used) => {
  const { shop, page, chat } = await converse(() => ({ calls: [{ name: 'empty_cart', args: {} }] }))
  await offer(page, 'empty_cart')
  const run = await chat.say('Empty it')
  const { calls } = await chat.rest(run, 'waiting')
  await shop.service.database.asOrg(
    await shop.organization('demo'),
    (sql) => sql`
      update runs set worked_ms = ${used.worked_ms ?? 0}, epoch = coalesce(${used.epoch ?? null}, epoch)
      where id = ${run}`,
  )
  await chat.request({ type: 'chat/decide', call_id: calls[0]?.id ?? '', approved: false }, 'chat/done')
  expect((await chat.rest(run, 'failed')).end?.error?.code).toBe('TOO_LONG')
})

test('a run that can’t be read keeps no other from being taken over, and ends after too many beginnings', async () => {
  const { shop, chat } = await converse(() => ({ text: ['Hello'] }))
  const [broken, other] = [await chat.say('Hi'), openChat(await shop.page(member))]
  await chat.rest(broken)
  const sound = await other.say('Hi')
  await other.rest(sound)
  const organization = await shop.organization('demo')
  const { database } = shop.service
  await database.asOrg(organization, async (sql) => {
    const tool = JSON.stringify('not an object')
    await sql`
      insert into tool_calls (organization_id, id, run_id, step, position, name, model_call_id, tool, args, state)
      values (current_organization(), ${newId()}, ${broken}, 1, 0, 'visit', '1', ${tool}, '{}', 'unknown')`
    const holder = JSON.stringify({ organization_id: organization, publishable_key_id: newId() })
    await sql`
      update runs set status = 'running', epoch = case when id = ${broken} then ${runLimits.beginnings} else 1 end,
        lease_until = now() - case when id = ${broken} then interval '2 minutes' else interval '1 minute' end,
        holder = ${holder}::jsonb || jsonb_build_object('end_user', (
          select jsonb_build_object('id', end_user_id) from threads where id = thread_id))
      where id = any(${[broken, sound]}::uuid[])`
  })
  const read = (id: string) =>
    database.asOrg(
      organization,
      (sql) => sql`select status, epoch, error ->> 'code' as code from runs where id = ${id}`,
    )
  await vi.waitFor(async () => expect(await read(sound)).toMatchObject([{ status: 'succeeded', epoch: 2 }]))
  await vi.waitFor(async () => expect(await read(broken)).toMatchObject([{ status: 'failed', code: 'TOO_LONG' }]))
  expect((await chat.rest(broken, 'failed')).end?.error?.code).toBe('TOO_LONG')
})

test('a run ends after too many steps', async () => {
  const { page, chat } = await converse((_, count) => ({ calls: [{ name: 'read_result', args: { from: count } }] }))
  await offer(page, 'empty_cart')
  const { calls, end } = await chat.rest(await chat.say('Go on forever'))
  expect(end?.error?.code).toBe('TOO_MANY_STEPS')
  expect(calls).toHaveLength(runLimits.steps)
})
