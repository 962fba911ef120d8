import { expect, test, vi } from 'vitest'
import { killDuringRuns } from '../agent-kills.ts'
import { startAgentProcesses } from '../agent-processes.ts'
import { createTranscript, openChat } from '../chat.ts'
import { offer } from '../page.ts'
import { type Env, type Installation, patience, type ServerProcess, useUsedInstallation } from '../processes.ts'
import { type Script, useScriptedModel } from '../scripted-model.ts'

async function killAndStart(inlay: Installation, server: ServerProcess, env?: Env): Promise<ServerProcess> {
  server.signal('SIGKILL')
  await server.finished
  return inlay.start(env)
}

/** Loads the tokenizer as slowly as a busy machine, for longer than PostgreSQL waits in a transaction. */
const slowTokenizer = `
  import { registerHooks } from 'node:module'
  const load = (url, context, next) => {
    if (url.includes('/encoding/o200k_base')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 6_000)
    return next(url, context)
  }
  registerHooks({ load })`
const slowly: Env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(slowTokenizer)}` }

const usageOf = (inlay: Installation) =>
  inlay.query(`
    select u.prompt_tokens > 0 as has_prompt, u.completion_tokens, u.is_estimated, u.finish_reason
    from usage_events u join model_calls m using (id) order by m.started_at`)
const callsIn = (inlay: Installation) =>
  inlay.query<{ id: string; state: string; is_asked: boolean }>(
    'select id, state, asked_at is not null as is_asked from tool_calls order by step, position',
  )
const reported = { has_prompt: true, completion_tokens: 10, is_estimated: false }

async function startAgent(script: Script) {
  const model = await useScriptedModel(script)
  const { installations, servers, page, resume } = await startAgentProcesses(model)
  return { model, page, resume, inlay: installations[0] as Installation, server: servers[0] as ServerProcess }
}

test('after kill -9 mid-stream, the run is completed once, and the interrupted request is charged as estimated', async () => {
  const never = new Promise(() => undefined)
  const { inlay, server, page, resume } = await startAgent((_, count) => ({
    text: count === 1 ? ['One two three', never] : ['One ', 'two ', 'three ', 'four'],
  }))
  const transcript = createTranscript()
  const before = openChat(await page(server), undefined, transcript)
  const run = await before.say('Count')
  await before.until(run, ({ texts }) => texts[0] === 'One two three')
  const parts = () => inlay.query('select text from step_texts')
  await vi.waitFor(async () => expect(await parts()).toEqual([{ text: 'One two three' }]), patience)

  const again = await killAndStart(inlay, server, slowly)
  const back = await resume(again, before.thread, run, transcript)
  const fresh = await resume(again, before.thread, run)
  for (const { chat } of [back, fresh]) {
    expect(await chat.rest(run)).toMatchObject({
      attempt: 2,
      texts: ['One two three four'],
      end: { status: 'succeeded', error: null },
    })
  }
  expect(await inlay.query('select text from steps')).toEqual([{ text: 'One two three four' }])
  expect(await parts()).toEqual([])
  expect(await usageOf(inlay)).toEqual([
    { has_prompt: true, completion_tokens: 3, is_estimated: true, finish_reason: 'interrupted' },
    { ...reported, finish_reason: 'stop' },
  ])
})

test('after kill -9 while a question waits, it is asked once, and its answer makes the call once', async () => {
  const { inlay, server, model, page, resume } = await startAgent(({ messages }) =>
    messages.at(-1)?.role === 'tool' ? { text: ['Finished'] } : { calls: [{ name: 'empty_cart', args: { id: 7 } }] },
  )
  const transcript = createTranscript()
  const lost = await page(server)
  await offer(lost, 'empty_cart')
  const before = openChat(lost, undefined, transcript)
  const run = await before.say('Empty it')
  const [asked] = (await before.rest(run, 'waiting')).calls

  const again = await killAndStart(inlay, server)
  const { page: back, chat } = await resume(again, before.thread, run)
  await offer(back, 'empty_cart')
  expect((await chat.rest(run, 'waiting')).calls).toEqual([asked])
  const history = await chat.request({ type: 'chat/messages', thread_id: before.thread }, 'chat/message-list')
  expect(JSON.stringify(history.messages).split('tool-approval-request')).toHaveLength(2)
  expect(model.requests).toHaveLength(1)
  const made = vi.fn(() => 'emptied')
  back.answer(made)
  await chat.request({ type: 'chat/decide', call_id: asked?.id ?? '', approved: true }, 'chat/done')
  expect(await chat.rest(run, 'succeeded')).toMatchObject({ texts: ['Finished'], calls: [{ output: 'emptied' }] })
  expect(made).toHaveBeenCalledTimes(1)
  expect(await callsIn(inlay)).toEqual([{ id: asked?.id, state: 'succeeded', is_asked: true }])
  expect(await usageOf(inlay)).toEqual([
    { ...reported, finish_reason: 'tool-calls' },
    { ...reported, finish_reason: 'stop' },
  ])
})

test('after kill -9 during a call, its outcome is unknown, and it is not made again without asking', async () => {
  const { inlay, server, model, page, resume } = await startAgent(({ messages }) => {
    const last = messages.at(-1)
    const isDone = last?.role === 'tool' && !JSON.stringify(last.content).includes('unknown whether it was carried out')
    return isDone ? { text: ['Finished'] } : { calls: [{ name: 'visit', args: { id: 7 } }] }
  })
  const lost = await page(server)
  await offer(lost, 'visit')
  const before = openChat(lost)
  const run = await before.say('Visit it')
  const { call_id } = await lost.next('tool/call')

  const again = await killAndStart(inlay, server)
  const { page: back, chat } = await resume(again, before.thread, run)
  await offer(back, 'visit')
  const [interrupted, repeated] = (await chat.rest(run, 'waiting')).calls
  expect(interrupted).toMatchObject({ id: call_id, error: expect.stringContaining('unknown'), question: undefined })
  expect(repeated?.question).toContain('may already have been carried out')
  expect(back.unread('tool/call')).toEqual([])
  expect(JSON.stringify(model.requests[1]?.messages.at(-1))).toContain('unknown whether it was carried out')
  const made = vi.fn(() => 'visited')
  back.answer(made)
  await chat.request({ type: 'chat/decide', call_id: repeated?.id ?? '', approved: true }, 'chat/done')
  expect(await chat.rest(run, 'succeeded')).toMatchObject({ texts: ['Finished'] })
  expect(made).toHaveBeenCalledTimes(1)
  expect(await callsIn(inlay)).toEqual([
    { id: call_id, state: 'unknown', is_asked: false },
    { id: repeated?.id, state: 'succeeded', is_asked: true },
  ])
})

test('10 kills at random moments lose and double no text, question, call or usage', { timeout: 600_000 }, async () => {
  const { dataDir } = useUsedInstallation()
  const { problems, kills } = await killDuringRuns({ dataDir, kills: 10 })
  expect(problems).toEqual([])
  expect(Object.values(kills).reduce((sum, count) => sum + count)).toBe(10)
})
