import { randomUUID } from 'node:crypto'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { allowVisitors, openElsewhere } from '../../../test/agent-shop.ts'
import { type ChatPage, openChat } from '../../../test/chat.ts'
import { type EngineProxy, startEngineProxy } from '../../../test/engine-proxy.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { offer, openPage, type Page } from '../../../test/page.ts'
import { type Script, type ScriptedModel, useScriptedModel } from '../../../test/scripted-model.ts'
import { member, type Shop, startShop } from '../../../test/shop.ts'

const { redisUrl } = inject('engines')
const patience = { timeout: 40_000, interval: 50 }

/** Two nodes with one PostgreSQL and one Redis. The second one's connection to Redis can be cut. */
interface Nodes {
  one: Shop
  two: HttpService
  proxy: EngineProxy
  model: ScriptedModel
  pageOf(node: HttpService): Promise<Page>
  /** Follows a thread on a node, like a page that is loaded again. */
  join(node: HttpService, thread: string): Promise<ChatPage>
  usage(runId: string): Promise<Record<string, unknown>[]>
}

async function startNodes(script: Script): Promise<Nodes> {
  const model = await useScriptedModel(script)
  const settings = { MODEL_URL: model.url, MODEL_NAME: 'scripted' }
  const proxy = await startEngineProxy(redisUrl ?? '')
  const one = await startShop(settings)
  onTestFinished(() => one.close())
  const two = await startHttpService({
    ...settings,
    DATABASE_URL: one.config.databaseUrl ?? '',
    REDIS_URL: proxy.url,
    INLAY_REDIS_PREFIX: one.config.redisPrefix,
    INLAY_PUBLIC_URL: one.url,
  })
  let isClosed = false
  const { close } = two
  two.close = async () => {
    if (isClosed) return
    isClosed = true
    await close()
  }
  onTestFinished(() => {
    proxy.restore()
    return two.close()
  })
  const demo = await one.organization('demo')
  const pageOf = async (node: HttpService) => openPage(node.local, await one.ticket(member))
  return {
    one,
    two,
    proxy,
    model,
    pageOf,
    async join(node, thread) {
      const page = await pageOf(node)
      const chat = openChat(page, thread)
      page.send({ type: 'chat/resume', request_id: 'resume', thread_id: thread })
      return chat
    },
    usage: (runId) =>
      one.service.database.asOrg(
        demo,
        (sql) => sql`
          select u.prompt_tokens, u.completion_tokens, u.is_estimated, u.finish_reason
          from usage_events u join model_calls m on m.id = u.id where m.run_id = ${runId} order by m.started_at, m.id`,
      ),
  }
}

/** A promise that holds a stream until the test lets it go. */
function hold() {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { until: promise, release: () => resolve() }
}

const reported = { prompt_tokens: 100, completion_tokens: 10, is_estimated: false, finish_reason: 'stop' }

describe('a run on another node', { timeout: 120_000 }, () => {
  test('is shown as it goes on, with the same text, also to a client that joins late', async () => {
    const [first, second] = [hold(), hold()]
    const { one, two, pageOf, join } = await startNodes(() => ({
      text: ['One ', first.until, 'two ', second.until, 'three'],
    }))
    const here = openChat(await pageOf(one))
    const run = await here.say('Count')
    const there = await join(two, here.thread)
    await there.until(run, ({ texts }) => texts[0] === 'One ')
    first.release()
    await there.until(run, ({ texts }) => texts[0] === 'One two ')
    const late = await join(two, here.thread)
    await late.until(run, ({ texts }) => texts[0] === 'One two ')
    second.release()
    for (const chat of [here, there, late]) {
      expect(await chat.rest(run)).toMatchObject({ attempt: 1, texts: ['One two three'], end: { status: 'succeeded' } })
    }
  })

  test('ends at once if the user deletes the thread here', async () => {
    const { one, two, model, pageOf, join } = await startNodes(() => ({ text: ['Once upon '], ending: 'stall' }))
    const here = openChat(await pageOf(one))
    const run = await here.say('Tell me a story')
    const there = await join(two, here.thread)
    await there.until(run, ({ texts }) => texts[0] === 'Once upon ')
    await there.request({ type: 'chat/delete-thread', thread_id: here.thread }, 'chat/done')
    for (const chat of [here, there]) await chat.rest(run, 'stopped')
    await vi.waitFor(() => expect(model.aborted()).toBe(1), patience)
    const read = { type: 'chat/messages' as const, thread_id: here.thread }
    expect(await here.refusal(read)).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect(`${one.logged()}${two.logged()}`).not.toMatch(/Could not read a run|ended unexpectedly/)
  })

  test('appears to a client that had the thread open before it began', async () => {
    const { one, two, pageOf, join } = await startNodes((_, count) => ({ text: [`Answer ${count}`] }))
    const here = openChat(await pageOf(one))
    const first = await here.say('First')
    await here.rest(first)
    const there = await join(two, here.thread)
    await there.rest(first)
    const second = await here.say('Second')
    expect(await there.rest(second)).toMatchObject({ texts: ['Answer 2'] })
  })

  test('is not shown to a visitor of another organization that has a thread with the same ID', async () => {
    const { one, two } = await startNodes((_, count) => ({ text: [`Answer ${count}`] }))
    const elsewhere = await openElsewhere(one, two.local)
    const theirs = openChat(elsewhere)
    await theirs.rest(await theirs.say('Hi'))
    await allowVisitors(one, 'demo')
    const visitor_secret = randomUUID()
    const visit = async (node: HttpService) =>
      openChat(await openPage(node.local, await one.ticket(), { hello: { visitor_secret } }), theirs.thread)
    const here = await visit(one)
    await here.rest(await here.say('First'))
    const there = await visit(two)
    await there.request({ type: 'chat/resume', thread_id: there.thread }, 'chat/no-active')
    const run = await here.say('Second')
    await there.rest(run)
    await elsewhere.settled()
    expect(theirs.run(run)).toMatchObject({ n: 0, end: undefined })
  })

  test('is not shown to the visitor whose thread the user has adopted', async () => {
    const { one, two, pageOf, join } = await startNodes((_, count) => ({ text: [`Answer ${count}`] }))
    await allowVisitors(one, 'demo')
    const visitor_secret = randomUUID()
    const page = await openPage(two.local, await one.ticket(), { hello: { visitor_secret } })
    const visitor = openChat(page)
    await visitor.rest(await visitor.say('Hi'))
    const here = openChat(await pageOf(one), visitor.thread)
    await here.request({ type: 'chat/adopt', thread_id: here.thread, visitor_secret }, 'chat/done')
    const there = await join(two, here.thread)
    const run = await here.say('Hi')
    await there.rest(run)
    await page.settled()
    expect(visitor.run(run)).toMatchObject({ n: 0, end: undefined })
  })

  test('can be stopped', async () => {
    const { until, release } = hold()
    const { one, two, pageOf, join, model } = await startNodes(() => ({ text: ['One', until, ' two'] }))
    onTestFinished(release)
    const here = openChat(await pageOf(one))
    const run = await here.say('Count')
    const there = await join(two, here.thread)
    await there.until(run, ({ texts }) => texts[0] === 'One')
    await there.request({ type: 'chat/abort', thread_id: here.thread }, 'chat/done')
    for (const chat of [here, there]) {
      expect(await chat.rest(run)).toMatchObject({ texts: ['One'], end: { status: 'stopped' } })
    }
    await vi.waitFor(() => expect(model.aborted()).toBe(1))
  })

  test('asks once, and any node can answer', async () => {
    const { one, two, pageOf, join } = await startNodes(({ messages }) =>
      messages.at(-1)?.role === 'tool' ? { text: ['Finished'] } : { calls: [{ name: 'empty_cart', args: {} }] },
    )
    const page = await pageOf(one)
    await offer(page, 'empty_cart')
    const here = openChat(page)
    const run = await here.say('Empty it')
    const there = await join(two, here.thread)
    const [call] = (await there.rest(run, 'waiting')).calls
    expect(call?.question).toMatch(/\S/)
    expect((await here.rest(run, 'waiting')).calls).toEqual([call])
    const made = vi.fn(() => 'emptied')
    page.answer(made)
    const decide = { type: 'chat/decide' as const, call_id: call?.id ?? '', approved: true }
    await there.request(decide, 'chat/done')
    for (const chat of [here, there]) {
      const ended = await chat.rest(run, 'succeeded')
      expect(ended).toMatchObject({ texts: ['Finished'], calls: [{ id: call?.id, answer: true, output: 'emptied' }] })
      expect(await chat.refusal(decide)).toMatchObject({ code: 'ALREADY_DECIDED' })
    }
    expect(made).toHaveBeenCalledTimes(1)
  })

  test('continues on this one if that one is closed, and its interrupted request is charged as estimated', async () => {
    const { until, release } = hold()
    const { one, two, pageOf, join, usage } = await startNodes((_, count) =>
      count === 1 ? { text: ['One two', until] } : { text: ['One ', 'two ', 'three'] },
    )
    onTestFinished(release)
    const there = openChat(await pageOf(two))
    const run = await there.say('Count')
    const here = await join(one, there.thread)
    await here.until(run, ({ texts }) => texts[0] === 'One two')
    await two.close()
    const shown = await here.rest(run)
    expect(shown).toMatchObject({ attempt: 2, texts: ['One two three'], end: { status: 'succeeded' } })
    const [interrupted, repeated, ...others] = await usage(run)
    expect(interrupted).toMatchObject({
      completion_tokens: 2,
      is_estimated: true,
      finish_reason: 'failed: interrupted',
    })
    expect(repeated).toEqual(reported)
    expect(others).toEqual([])
  })
})

describe('lost messages about a run on another node', { timeout: 120_000 }, () => {
  test('in its middle are made up for with the next one', async () => {
    const [first, second] = [hold(), hold()]
    const { one, two, pageOf, join, proxy } = await startNodes(() => ({
      text: ['One ', first.until, 'two ', second.until, 'three'],
    }))
    const here = openChat(await pageOf(one))
    const run = await here.say('Count')
    const there = await join(two, here.thread)
    await there.until(run, ({ texts }) => texts[0] === 'One ')
    proxy.mute()
    first.release()
    await here.until(run, ({ texts }) => texts[0] === 'One two ')
    proxy.restore()
    second.release()
    expect(await there.rest(run)).toMatchObject({ texts: ['One two three'], end: { status: 'succeeded' } })
  })

  test('at its end are made up for from the rows', async () => {
    const { until, release } = hold()
    const { one, two, pageOf, join, proxy } = await startNodes(() => ({ text: ['One ', until, 'two'] }))
    const here = openChat(await pageOf(one))
    const run = await here.say('Count')
    const there = await join(two, here.thread)
    await there.until(run, ({ texts }) => texts[0] === 'One ')
    proxy.mute()
    release()
    await here.rest(run)
    expect(await there.rest(run)).toMatchObject({ texts: ['One two'], end: { status: 'succeeded' } })
  })

  test('at its beginning are repeated while it goes on', async () => {
    const { until, release } = hold()
    const { one, two, pageOf, join, proxy } = await startNodes((_, count) => ({
      text: count === 1 ? ['Answer'] : ['One ', until, 'two'],
    }))
    onTestFinished(release)
    const here = openChat(await pageOf(one))
    const first = await here.say('Hi')
    await here.rest(first)
    const there = await join(two, here.thread)
    await there.rest(first)
    proxy.mute()
    const run = await here.say('Count')
    await here.until(run, ({ texts }) => texts[0] === 'One ')
    proxy.restore()
    await there.until(run, ({ texts }) => texts[0] === 'One ')
    release()
    expect(await there.rest(run)).toMatchObject({ texts: ['One two'] })
  })

  test('are made up for when the connection to Redis is back, even if the run has come and gone', async () => {
    const { one, two, pageOf, join, proxy } = await startNodes((_, count) => ({ text: [`Answer ${count}`] }))
    const here = openChat(await pageOf(one))
    const first = await here.say('First')
    await here.rest(first)
    const there = await join(two, here.thread)
    await there.rest(first)
    proxy.cut()
    const second = await here.say('Second')
    await here.rest(second)
    proxy.restore()
    await vi.waitFor(() => expect(there.run(second)).toMatchObject({ texts: ['Answer 2'] }), patience)
  })
})

/** Two server processes with one PostgreSQL and one Redis, as behind a load balancer. */
