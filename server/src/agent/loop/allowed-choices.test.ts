import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ChatPage, openChat } from '../../../test/chat.ts'
import { type Delegation, startDelegation } from '../../../test/delegation.ts'
import { type ScriptedModel, startScriptedModel } from '../../../test/scripted-model.ts'

/** Calls without arguments, in conversations that contain text from another origin than the tool's. */

const evil = 'https://evil.example'
const third = 'https://third.example'

type Step = { name: string; args?: object }[]

let org: Delegation
let model: ScriptedModel
let users = 0
beforeAll(async () => {
  model = await startScriptedModel(() => ({ text: ['Hello'] }))
  org = await startDelegation({ MODEL_URL: model.url, MODEL_NAME: 'gullible' })
})
afterAll(async () => {
  await org.close()
  model.close()
})

/** A user with a page, and a tab of another origin that offers one tool for each digit. The model makes these calls. */
async function converse(...steps: Step[]) {
  users += 1
  const claims = { sub: `user ${users}`, email: `user${users}@example.com`, email_verified: true }
  const page = await org.page({ claims })
  const ran: string[] = []
  const open = async (origin: string, tools: Parameters<typeof describe>[0]) => {
    const tab = await org.page({ claims, hello: { url: `${origin}/`, tab_id: origin } })
    tab.answer(({ name }) => {
      ran.push(name)
      return 'ok'
    })
    await offer(tab, tools)
    return tab
  }
  const describe = (tools: Record<string, { description?: string; writes?: true }>) =>
    Object.entries(tools).map(([name, { description = 'Tells the status', writes }]) => ({
      name,
      description,
      annotations: { readOnlyHint: !writes },
    }))
  const offer = async (tab: typeof page, tools: Parameters<typeof describe>[0]) => {
    tab.send({ type: 'tools/list', tools: describe(tools) })
    await tab.next('tools/accepted')
  }
  page.send({ type: 'tools/list', tools: describe({ my_account: {} }) })
  await page.next('tools/accepted')
  const tab = await open(evil, { status_0: {}, status_1: {}, status_2: {}, beep: { writes: true } })
  const follow = (steps: Step[]) =>
    model.follow(({ messages }) => {
      const last = messages.findLastIndex(({ role }) => role === 'user')
      const calls = steps[messages.slice(last).filter(({ role }) => role === 'assistant').length]
      return calls ? { calls: calls.map(({ name, args = {} }) => ({ name, args })) } : { text: ['Done'] }
    })
  follow(steps)
  return { page, tab, ran, open, offer, follow, chat: openChat(page) }
}

/** Answers the question about a call of the run. */
async function answer(chat: ChatPage, run: string, index: number, more: object) {
  const { calls } = await chat.until(run, ({ calls }) => calls[index]?.question !== undefined)
  await chat.request({ type: 'chat/decide', call_id: calls[index]?.id, approved: true, ...more }, 'chat/done')
}

/** The call with this index waits, and the last of those before it has ended. */
const asks = (chat: ChatPage, run: string, index: number) =>
  chat.until(run, ({ calls, end }) => calls[index]?.question !== undefined && end?.status === 'waiting')

const forOrigin = { always: true, scope: 'origin' }

test('the first one asks, whatever a policy says, and a declined one does not run', async () => {
  await org.asAdmin('PATCH', '/agent/config', { tool_policies: { status_1: 'auto' } })
  const { chat, ran } = await converse([{ name: 'status_1' }])
  const run = await chat.say('Hello')
  const { calls } = await asks(chat, run, 0)
  expect(calls[0]?.question).toContain(`Which tool the agent uses can tell ${evil} something about it.`)
  await answer(chat, run, 0, { approved: false })
  await chat.rest(run, 'succeeded')
  expect(ran).toEqual([])
  await org.asAdmin('PATCH', '/agent/config', { tool_policies: {} })
})

test('one answer lets the tools of the origin that only read run, and nothing else', async () => {
  const { chat, ran } = await converse(
    [{ name: 'status_1' }],
    [{ name: 'status_0' }],
    [{ name: 'status_2', args: { q: 'secret' } }],
    [{ name: 'beep' }],
    [{ name: 'my_account' }],
  )
  const run = await chat.say('Hello')
  await answer(chat, run, 0, forOrigin)
  for (const index of [2, 3, 4]) {
    await asks(chat, run, index)
    await answer(chat, run, index, { approved: false })
  }
  const { calls } = await chat.rest(run, 'succeeded')
  expect(calls.map(({ question }) => question !== undefined)).toEqual([true, false, true, true, true])
  expect(ran).toEqual(['status_1', 'status_0'])
})

test.each(['beep', 'status_1'])('one answer for the tool %s lets this tool run, and no other', async (name) => {
  const { chat, ran } = await converse([{ name }], [{ name }], [{ name: 'status_0' }])
  const run = await chat.say('Hello')
  await answer(chat, run, 0, { always: true })
  const { calls } = await chat.until(run, ({ calls, end }) => calls.length === 3 && end !== undefined)
  expect(calls.map(({ question }) => question !== undefined)).toEqual([true, false, true])
  expect(ran).toEqual([name, name])
})

test('an answer that adds arguments covers no later call without them', async () => {
  const { chat, ran } = await converse([{ name: 'status_1' }], [{ name: 'status_1' }])
  const run = await chat.say('Hello')
  await answer(chat, run, 0, { ...forOrigin, edited_args: { q: 'mine' } })
  const { calls } = await chat.until(run, ({ calls, end }) => calls.length === 2 && end !== undefined)
  expect(calls.map(({ question }) => question !== undefined)).toEqual([true, true])
  expect(ran).toEqual(['status_1'])
})

test('one answer also answers the open questions that it covers', async () => {
  const step = ['status_0', 'status_1', 'status_2', 'beep'].map((name) => ({ name }))
  const { chat, ran } = await converse(step)
  const run = await chat.say('Hello')
  await asks(chat, run, 3)
  await answer(chat, run, 1, forOrigin)
  const { calls } = await chat.until(run, ({ calls }) => calls.slice(0, 3).every(({ output }) => output !== undefined))
  expect(calls.map(({ answer }) => answer)).toEqual([true, true, true, undefined])
  expect(ran.toSorted()).toEqual(['status_0', 'status_1', 'status_2'])
})

test('an answer doesn’t cover another conversation', async () => {
  const { page, chat } = await converse([{ name: 'status_0' }])
  const run = await chat.say('Hello')
  await answer(chat, run, 0, forOrigin)
  await chat.rest(run, 'succeeded')
  const other = openChat(page)
  await asks(other, await other.say('Hello'), 0)
})

test('an answer covers later messages, until the tool’s definition changes', async () => {
  const { tab, chat, ran, offer } = await converse([{ name: 'status_0' }])
  const first = await chat.say('Hello')
  await answer(chat, first, 0, forOrigin)
  await chat.rest(first, 'succeeded')
  await chat.rest(await chat.say('Again'), 'succeeded')
  expect(ran).toEqual(['status_0', 'status_0'])
  await offer(tab, { status_0: { description: 'Tells something else' } })
  await asks(chat, await chat.say('Again'), 0)
})

test('an answer doesn’t cover tools that the origin adds while the question is open', async () => {
  const { tab, chat, offer } = await converse([{ name: 'status_0' }], [{ name: 'status_3' }])
  const run = await chat.say('Hello')
  await asks(chat, run, 0)
  await offer(tab, { status_0: {}, status_3: {} })
  await answer(chat, run, 0, forOrigin)
  await asks(chat, run, 1)
})

test('an answer doesn’t cover text that arrives from a third origin', async () => {
  const { chat, open } = await converse([{ name: 'status_0' }])
  const first = await chat.say('Hello')
  await answer(chat, first, 0, forOrigin)
  await chat.rest(first, 'succeeded')
  await open(third, { other: {} })
  const run = await chat.say('Again')
  expect((await asks(chat, run, 0)).calls[0]?.question).toContain('and 1 more')
})
