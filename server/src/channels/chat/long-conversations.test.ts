import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { openChat } from '../../../test/chat.ts'
import { openChatTab, openTab } from '../../../test/chat-client.ts'
import { addLongRuns, type LongRun } from '../../../test/long-runs.ts'
import type { Page } from '../../../test/page.ts'
import { member } from '../../../test/shop.ts'

let shop: AgentShop
beforeAll(async () => {
  shop = await startAgentShop()
})
// What the user may read is whole again.
beforeEach(() => shop.pass(60_000))
afterAll(() => shop.close())

const read16k = { calls: 14, resultLength: 16_000 }
const conversations: { title: string; runs: LongRun[]; calls: number }[] = [
  { title: '20 runs with 14 reads of 16 KB each', runs: Array(20).fill({ steps: 1, ...read16k }), calls: 280 },
  { title: 'one run with 304 reads of 16 KB', runs: [{ steps: 19, calls: 16, resultLength: 16_000 }], calls: 304 },
  {
    title: 'a run for which a model wrote 6 MB of arguments',
    runs: [{ steps: 1, calls: 1, resultLength: 10, argumentsLength: 6_000_000 }],
    calls: 1,
  },
]

const mostBytes = 1024 * 1024

/** The lengths of all messages that a page gets. */
function watchLengths(page: Page): number[] {
  const lengths: number[] = []
  page.socket.on('message', (data) => lengths.push(String(data).length))
  return lengths
}

describe.for(conversations)('$title', ({ runs, calls }) => {
  test('a client gets the last run in bounded messages', async () => {
    const page = await shop.page(member)
    const thread = await addLongRuns(shop, { sub: member?.sub, runs })
    const lengths = watchLengths(page)
    const chat = openChat(page, thread)
    await chat.request({ type: 'chat/resume', thread_id: thread }, 'chat/no-active')
    const end = await page.next('chat/end')
    const { calls: shown } = chat.run(end.run_id)
    expect(shown).toHaveLength(calls / runs.length)
    expect(shown.every(({ output }) => output === 'x'.repeat(runs[0]?.resultLength ?? 0))).toBe(true)
    expect(Math.max(...lengths)).toBeLessThan(mostBytes)
  })

  test('the widget shows all of it, page by page, also after a reload', async () => {
    const tab = openTab()
    await shop.page(member)
    const thread = await addLongRuns(shop, { sub: member?.sub, runs })
    for (let visit = 0; visit < 2; visit += 1) {
      const chat = openChatTab(shop, tab)
      const page = await chat.connect(member)
      const lengths = watchLengths(page)
      chat.session.openThread(thread)
      await chat.until(({ isLoading, entries }) => !isLoading && entries.length > 0)
      while (chat.session.state.hasEarlier) {
        const { length } = chat.session.state.entries
        chat.session.loadEarlier()
        await chat.until(({ entries }) => entries.length > length)
      }
      const outputs = chat.session.state.entries.flatMap((entry) =>
        entry.role === 'assistant' ? entry.parts.flatMap((part) => (part.kind === 'tool' ? [part.output] : [])) : [],
      )
      expect(outputs).toEqual(Array(calls).fill('x'.repeat(runs[0]?.resultLength ?? 0)))
      expect(Math.max(...lengths)).toBeLessThan(mostBytes)
      chat.drop()
    }
  })
})

test('a page of a long conversation has two runs at least, and otherwise as many as have half a mebibyte', async () => {
  const page = await shop.page(member)
  const run = (calls: number): LongRun => ({ steps: 1, calls, resultLength: 16_000 })
  const thread = await addLongRuns(shop, { sub: member?.sub, runs: [14, 14, 14, 40, 40, 8, 8, 8].map(run) })
  const chat = openChat(page, thread)
  const lengths: number[] = []
  for (let before: number | null | undefined; before !== null; ) {
    const list = await chat.request({ type: 'chat/messages', thread_id: thread, before }, 'chat/message-list')
    lengths.push(list.messages.filter(({ role }) => role === 'assistant').length)
    before = list.before
  }
  expect(lengths).toEqual([3, 2, 2, 1])
})

test('a client that asks for a long conversation and never reads is closed, and others don’t wait for it', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const deaf = await shop.page(member)
  const other = await shop.page(member)
  const thread = await addLongRuns(shop, { sub: member?.sub, runs: [{ steps: 40, calls: 16, resultLength: 16_000 }] })
  deaf.socket.pause()
  const before = process.memoryUsage().rss
  for (let n = 0; n < 8; n += 1) deaf.send({ type: 'chat/messages', request_id: `r${n}`, thread_id: thread })
  const chat = openChat(other, thread)
  await chat.request({ type: 'chat/messages', thread_id: thread }, 'chat/message-list')
  const closed = '{surface="runtime",code="too_slow"} 1'
  await vi.waitFor(async () => {
    vi.advanceTimersByTime(10_000)
    expect(await shop.service.metrics.render()).toContain(closed)
  })
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024)
  deaf.socket.resume()
  expect(await deaf.closed).toMatchObject({ code: 1013 })
})
