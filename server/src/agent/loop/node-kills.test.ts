import pg from 'pg'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { startAgentProcesses } from '../../../test/agent-processes.ts'
import { openChat } from '../../../test/chat.ts'
import { testSecret } from '../../../test/engines/engines.ts'
import { makeConfig } from '../../../test/harness.ts'
import { offer } from '../../../test/page.ts'
import type { ServerProcess } from '../../../test/processes.ts'
import { type Script, useScriptedModel } from '../../../test/scripted-model.ts'

const { redisUrl, superuserUrl } = inject('engines')
const patience = { timeout: 40_000, interval: 50 }

/** A promise that holds a stream until the test lets it go. */
function hold() {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { until: promise, release: () => resolve() }
}

describe.skipIf(!redisUrl)('the process that works on a run', { timeout: 180_000 }, () => {
  async function startProcesses(script: Script) {
    const model = await useScriptedModel(script)
    const { config, remove } = await makeConfig()
    onTestFinished(remove)
    const { servers, page, resume } = await startAgentProcesses(model, 2, {
      DATABASE_URL: config.databaseUrl ?? '',
      REDIS_URL: config.redisUrl ?? '',
      INLAY_REDIS_PREFIX: config.redisPrefix,
      INLAY_SECRET: testSecret,
    })
    const database = new URL(config.databaseUrl ?? '').pathname.slice(1)
    const connect = async () => {
      const owner = new pg.Client(superuserUrl.replace('DATABASE', database))
      await owner.connect()
      onTestFinished(() => owner.end())
      return owner
    }
    const owner = await connect()
    const read = async (text: string) => (await owner.query(text)).rows
    const [one, two] = servers as [ServerProcess, ServerProcess]
    onTestFinished(() => one.signal('SIGCONT'))
    return { model, page, resume, one, two, read, connect }
  }

  const usage = `
    select u.completion_tokens, u.is_estimated, u.finish_reason
    from usage_events u join model_calls m using (id) order by m.started_at`
  const estimated = { is_estimated: true, finish_reason: 'interrupted' }

  test('is killed: another one completes the run, and every client has the same text', async () => {
    const never = new Promise(() => undefined)
    const { one, two, page, resume, read } = await startProcesses((_, count) => ({
      text: count === 1 ? ['One two', never] : ['One ', 'two ', 'three'],
    }))
    const lost = openChat(await page(one))
    const run = await lost.say('Count')
    const { chat } = await resume(two, lost.thread, run)
    await chat.until(run, ({ texts }) => texts[0] === 'One two')
    one.signal('SIGKILL')
    const late = await resume(two, lost.thread, run)
    for (const each of [chat, late.chat]) {
      expect(await each.rest(run)).toMatchObject({ attempt: 2, texts: ['One two three'], end: { status: 'succeeded' } })
    }
    expect(await read(usage)).toEqual([
      { completion_tokens: expect.any(Number), ...estimated },
      { completion_tokens: 10, is_estimated: false, finish_reason: 'stop' },
    ])
  })

  test('is suspended for longer than its lease: another one completes the run, and it changes nothing when it is back', async () => {
    const { until, release } = hold()
    const { one, two, page, resume, read } = await startProcesses(({ messages }, count) => {
      if (messages.at(-1)?.role === 'tool') return { text: ['Visited'] }
      return { text: ['One', ...(count === 1 ? [until] : []), ' two'], calls: [{ name: 'visit', args: {} }] }
    })
    onTestFinished(release)
    const shop = await page(two, { hello: { tab_id: 'tab-2' } })
    await offer(shop, 'visit')
    const made = vi.fn(() => 'visited')
    shop.answer(made)
    const here = openChat(await page(one))
    const run = await here.say('Visit it')
    await here.until(run, ({ texts }) => texts[0] === 'One')
    one.signal('SIGSTOP')
    const there = (await resume(two, here.thread, run)).chat
    const expected = { attempt: 2, texts: ['One two', 'Visited'], end: { status: 'succeeded' } }
    expect(await there.rest(run)).toMatchObject(expected)
    // The whole reply, with a call, waits for the suspended process.
    release()
    const before = [await read(usage), await read('select * from steps'), await read('select * from tool_calls')]
    one.signal('SIGCONT')
    expect(await here.rest(run, 'succeeded')).toMatchObject(expected)
    one.signal('SIGTERM')
    expect((await one.finished).code).toBe(0)
    const after = [await read(usage), await read('select * from steps'), await read('select * from tool_calls')]
    expect(after).toEqual(before)
    expect(after[0]).toEqual([
      { completion_tokens: expect.any(Number), ...estimated },
      { completion_tokens: 10, is_estimated: false, finish_reason: 'tool-calls' },
      { completion_tokens: 10, is_estimated: false, finish_reason: 'stop' },
    ])
    expect(made).toHaveBeenCalledTimes(1)
    expect(await read('select reserved_tokens from budget_periods where reserved_tokens <> 0')).toEqual([])
  })

  const calling: Script = ({ messages }) =>
    messages.some(({ role }) => role === 'tool') ? { text: ['I don’t know'] } : { calls: [{ name: 'visit', args: {} }] }

  /** The first process is suspended during a call to a page of the second. */
  async function suspendDuringCall() {
    const { one, two, page, resume, read } = await startProcesses(calling)
    const shop = await page(two, { hello: { tab_id: 'tab-2' } })
    await offer(shop, 'visit')
    const here = openChat(await page(one))
    const run = await here.say('Visit it')
    const { call_id } = await shop.next('tool/call')
    one.signal('SIGSTOP')
    return {
      shop,
      here,
      run,
      call_id,
      read,
      continue: () => one.signal('SIGCONT'),
      join: async () => (await resume(two, here.thread, run)).chat,
      async expectResult() {
        one.signal('SIGTERM')
        expect((await one.finished).code).toBe(0)
        expect(await read('select id, state, result from tool_calls')).toEqual([
          { id: call_id, state: 'succeeded', result: 'visited' },
        ])
        expect(shop.unread('tool/call')).toEqual([])
      },
    }
  }

  test('is suspended during a call: its result is accepted after another one has reported it as unknown', async () => {
    const suspended = await suspendDuringCall()
    const { shop, here, run, call_id, read } = suspended
    const there = await suspended.join()
    await there.rest(run, 'succeeded')
    expect(await read('select state from tool_calls')).toEqual([{ state: 'unknown' }])
    suspended.continue()
    await here.rest(run, 'succeeded')
    shop.send({ type: 'tool/result', call_id, result: 'visited' })
    for (const chat of [here, there]) {
      const shown = await chat.until(run, ({ calls, end }) => calls[0]?.output === 'visited' && end !== undefined)
      expect(shown).toMatchObject({ texts: ['I don’t know'], end: { status: 'succeeded' } })
    }
    await suspended.expectResult()
    expect(shop.unread('tool/cancel')).toEqual([])
  })

  test('is suspended before the result arrives: it isn’t lost', async () => {
    const suspended = await suspendDuringCall()
    const { shop, here, run, call_id } = suspended
    shop.send({ type: 'tool/result', call_id, result: 'visited' })
    const there = await suspended.join()
    await there.until(run, ({ calls }) => calls[0]?.output === 'visited')
    await there.rest(run, 'succeeded')
    suspended.continue()
    await here.until(run, ({ calls, end }) => calls[0]?.output === 'visited' && end?.status === 'succeeded')
    await suspended.expectResult()
  })

  test('is killed together with the page’s session: the result is accepted from the page’s next session', async () => {
    const { one, two, page, resume, read } = await startProcesses(calling)
    const shop = await page(one, { hello: { tab_id: 'tab-2' } })
    await offer(shop, 'visit')
    const here = openChat(shop)
    const run = await here.say('Visit it')
    const { call_id, receipt } = await shop.next('tool/call')
    one.signal('SIGKILL')
    const { session, resume_secret: secret } = shop.ready
    const again = await page(two, { hello: { tab_id: 'tab-2', resume: { session, secret } } })
    expect(again.ready.resumed).toBe(false)
    again.send({ type: 'tool/result', call_id, result: 'visited', receipt })
    const there = (await resume(two, here.thread, run)).chat
    await there.until(run, ({ calls }) => calls[0]?.output === 'visited')
    await there.rest(run, 'succeeded')
    expect(await read('select id, state, result from tool_calls')).toEqual([
      { id: call_id, state: 'succeeded', result: 'visited' },
    ])
    expect(again.unread('tool/call')).toEqual([])
  })

  test('is suspended after it has marked a call as sent: it doesn’t send it when it is back', async () => {
    const { one, two, page, read, connect } = await startProcesses(calling)
    const shop = await page(two, { hello: { tab_id: 'tab-2' } })
    await offer(shop, 'visit')
    // Holds the process where it asks whether there is a governance provider, immediately before it sends the call.
    const locker = await connect()
    await locker.query('begin; lock table governance_providers in access exclusive mode')
    const here = openChat(await page(one))
    const run = await here.say('Visit it')
    const held = await vi.waitFor(async () => {
      const [backend] = await read(`
        select pid from pg_stat_activity where wait_event_type = 'Lock' and query like '%from governance_providers%'`)
      return backend?.pid ?? expect.unreachable('It does not wait')
    }, patience)
    expect(await read('select state from tool_calls')).toEqual([{ state: 'running' }])
    one.signal('SIGSTOP')
    await locker.query('commit')
    await vi.waitFor(
      async () => expect(await read('select state from tool_calls')).toEqual([{ state: 'unknown' }]),
      patience,
    )
    // Otherwise, it would often find out that it has lost the run just before it sends the call.
    await locker.query('begin; select from runs for update')
    one.signal('SIGCONT')
    const hasAsked = `select from pg_stat_activity where pid = ${held} and query like '%from governance_providers%'`
    await vi.waitFor(async () => expect(await read(hasAsked)).toEqual([]), patience)
    await locker.query('commit')
    await here.rest(run, 'succeeded')
    one.signal('SIGTERM')
    expect((await one.finished).code).toBe(0)
    await shop.settled()
    expect(shop.unread('tool/call')).toEqual([])
    expect(await read('select state from tool_calls')).toEqual([{ state: 'unknown' }])
  })
})
