import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { type AgentShop, allowVisitors, openElsewhere, startAgentShop } from '../../../test/agent-shop.ts'
import { openChat } from '../../../test/chat.ts'
import type { ScriptedModel } from '../../../test/scripted-model.ts'
import { member } from '../../../test/shop.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import type { RunStory } from '../runs/rows.ts'
import { createFeeds } from './feeds.ts'

let shop: AgentShop
let model: ScriptedModel
beforeAll(async () => {
  shop = await startAgentShop()
  model = shop.model
})
afterAll(() => shop.close())

/** A run that goes on until the test ends, or until `release`. */
async function startRun(thread?: string) {
  const { promise, resolve } = Promise.withResolvers<void>()
  model.follow(() => ({ text: ['One ', promise, 'two'] }))
  onTestFinished(() => resolve())
  const page = await shop.page(member)
  const chat = openChat(page, thread)
  const run = await chat.say('Count')
  await chat.until(run, ({ texts }) => texts[0] === 'One ')
  return { page, chat, run, release: () => resolve() }
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

test('a visitor of another organization that has a thread with the same ID gets nothing of a run', async () => {
  model.follow(() => ({ text: ['Hello'] }))
  await allowVisitors(shop, 'demo')
  const pages = [await openElsewhere(shop), await shop.page(undefined, { hello: { visitor_secret: randomUUID() } })]
  const thread = randomUUID()
  const chats = pages.map((page) => openChat(page, thread))
  for (const chat of chats) await chat.rest(await chat.say('Hi'))
  for (const chat of chats) {
    const run = await chat.say('Again')
    await chat.rest(run)
    for (const [index, other] of chats.entries()) {
      if (other === chat) continue
      await pages[index]?.settled()
      expect(other.run(run)).toMatchObject({ n: 0, end: undefined })
    }
  }
})

test('a visitor gets nothing of a run in a thread that a user has adopted', async () => {
  await allowVisitors(shop, 'demo')
  model.follow(() => ({ text: ['Hello'] }))
  const visitor_secret = randomUUID()
  const page = await shop.page(undefined, { hello: { visitor_secret } })
  const visitor = openChat(page)
  await visitor.rest(await visitor.say('Hi'))
  const user = openChat(await shop.page(member), visitor.thread)
  await user.request({ type: 'chat/adopt', thread_id: user.thread, visitor_secret }, 'chat/done')
  const run = await user.say('Hi')
  await user.rest(run)
  await page.settled()
  expect(visitor.run(run)).toMatchObject({ n: 0, end: undefined })
})

/** A viewer whose thread is read only after a run has ended. The rows don't have the run's notice. */
async function watchUntilEnd() {
  const feeds = await createFeeds(shop.service)
  onTestFinished(() => feeds.close())
  const run = { id: randomUUID(), feed: randomUUID(), attempt: 1 }
  const seen: unknown[] = []
  const rows = Promise.withResolvers<RunStory>()
  const log = feeds.open(run, [])
  const viewer = {
    chunks: (_run: unknown, n: number, chunks: readonly unknown[]) => void seen.push({ n, chunks }),
    rested: ({ status }: { status: string }) => void seen.push(status),
  }
  const { last } = feeds.watch(run.feed, viewer, undefined, {
    check: async () => undefined,
    readLast: () => rows.promise,
  })
  const notice = { type: 'data-notice', data: { text: 'There is no such skill.' }, transient: true } as const
  log.append(notice)
  log.close({ status: 'succeeded', error: null })
  return { feeds, run, seen, rows, last, notice }
}

const storyOf = (run: { id: string; attempt: number }, status: string) =>
  ({ run: { ...run, status, error: null }, messages: [], steps: [], calls: [] }) as unknown as RunStory

test('a viewer who arrives just before a run ends gets all of its chunks, also those that aren’t stored', async () => {
  const { run, seen, rows, last, notice } = await watchUntilEnd()
  expect(seen, 'nothing before the thread was read').toEqual([])
  rows.resolve(storyOf(run, 'running'))
  expect(await last).toMatchObject({ id: run.id, status: 'succeeded' })
  expect(seen).toEqual([{ n: 0, chunks: [notice] }, 'succeeded'])
})

test('a viewer gets the rows of a run that was continued, or changed, after it had come to rest', async () => {
  const continued = await watchUntilEnd()
  continued.rows.resolve(storyOf({ ...continued.run, attempt: 2 }, 'stopped'))
  expect(await continued.last).toMatchObject({ status: 'stopped' })
  expect(continued.seen.at(-1)).toBe('stopped')

  const changed = await watchUntilEnd()
  changed.feeds.changed(changed.run)
  changed.rows.resolve(storyOf(changed.run, 'failed'))
  expect(await changed.last).toMatchObject({ status: 'failed' })
  expect(changed.seen.at(-1)).toBe('failed')
})

test('a viewer gets a change to a run that has ended, also if its rows can’t be read at first', async () => {
  vi.useFakeTimers({ toFake: ['setInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const feeds = await createFeeds(shop.service)
  onTestFinished(() => feeds.close())
  const [run, seen] = [{ id: randomUUID(), feed: randomUUID(), attempt: 1 }, [] as string[]]
  const viewer = { chunks: () => undefined, rested: ({ status }: { status: string }) => void seen.push(status) }
  const readLast = vi
    .fn(async () => storyOf({ ...run, attempt: 2 }, 'failed'))
    .mockResolvedValueOnce(storyOf(run, 'succeeded'))
    .mockRejectedValueOnce(new Error('The database doesn’t respond'))
  await feeds.watch(run.feed, viewer, undefined, { check: async () => undefined, readLast }).last
  feeds.changed(run)
  await vi.waitFor(() => expect(readLast).toHaveBeenCalledTimes(2))
  await vi.waitFor(() => {
    vi.advanceTimersToNextTimer()
    expect(seen).toEqual(['succeeded', 'failed'])
  })
})

test('a viewer who may not see the thread gets nothing of a run that ends meanwhile', async () => {
  const { seen, rows, last } = await watchUntilEnd()
  rows.reject(new Error('Not found'))
  await expect(last).rejects.toThrow('Not found')
  expect(seen).toEqual([])
})

test.each([
  ['on another node', { attempt: 1, isElsewhere: true }],
  ['that was continued', { attempt: 2, isElsewhere: false }],
])('a viewer whose thread has become another’s sees nothing of a run %s', async (_, { attempt, isElsewhere }) => {
  const [one, two] = [await createFeeds(shop.service), await createFeeds(shop.service)]
  onTestFinished(() => Promise.all([one.close(), two.close()]).then(() => undefined))
  const [run, feed] = [{ id: randomUUID(), attempt }, randomUUID()]
  const owner = { mayRead: true, seen: [] as unknown[] }
  const former = { mayRead: true, seen: [] as unknown[] }
  for (const each of [former, owner]) {
    const viewer = { chunks: (...told: unknown[]) => void each.seen.push(told), rested: () => undefined }
    const check = async () => {
      if (!each.mayRead) throw notFound('thread', feed)
    }
    const thread = { check, readLast: () => check().then(() => undefined) }
    await (isElsewhere ? two : one).watch(feed, viewer, undefined, thread).last
  }
  // Without a message about it.
  former.mayRead = false
  const log = one.open({ ...run, feed }, [])
  log.append({ type: 'start-step' })
  await vi.waitFor(() => expect(owner.seen).toEqual([[run, 0, [{ type: 'start-step' }]]]))
  log.append({ type: 'finish-step' })
  await vi.waitFor(() => expect(owner.seen).toContainEqual([run, 1, [{ type: 'finish-step' }]]))
  expect(former.seen).toEqual([])
})
