import { randomUUID } from 'node:crypto'
import { HttpAgent } from '@ag-ui/client'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { startEngineProxy } from '../../../test/engine-proxy.ts'
import { startHttpService } from '../../../test/http-server.ts'
import { offer } from '../../../test/page.ts'
import { patience } from '../../../test/processes.ts'
import { type Script, useScriptedModel } from '../../../test/scripted-model.ts'
import { member, startShop } from '../../../test/shop.ts'
import { createLog } from '../../kernel/lib/log.ts'
import { openRedisBus } from '../../kernel/stores/redis.ts'
import { attendanceChannel, createAttendance } from './attendance.ts'

const { redisUrl } = inject('engines')

/** Two nodes with one PostgreSQL and one Redis, and a client that can move between them. */
async function startNodes(script: Script) {
  const model = await useScriptedModel(script)
  const settings = { MODEL_URL: model.url, MODEL_NAME: 'scripted' }
  const one = await startShop(settings)
  onTestFinished(() => one.close())
  const two = await startHttpService({
    ...settings,
    DATABASE_URL: one.config.databaseUrl ?? '',
    REDIS_URL: redisUrl ?? '',
    INLAY_REDIS_PREFIX: one.config.redisPrefix,
    INLAY_PUBLIC_URL: one.url,
  })
  onTestFinished(() => two.close())
  const { body } = await one.request('POST', '/agent/session', { body: { ticket: await one.ticket(member) } })
  const agent = new HttpAgent({
    url: `${one.local}/ag-ui`,
    headers: { authorization: `Bearer ${body.token}` },
    initialMessages: [{ id: randomUUID(), role: 'user', content: 'Hi' }],
  })
  const moveTo = (node: { local: string }) => {
    agent.url = `${node.local}/ag-ui`
  }
  return { one, two, model, agent, moveTo }
}

const textOf = ({ messages }: HttpAgent) => messages.at(-1)?.content

describe('with several nodes', () => {
  test('a client attaches to a run that another node works on', async () => {
    const { promise: until, resolve: release } = Promise.withResolvers<void>()
    const { agent, two, model, moveTo } = await startNodes(() => ({ text: ['One', until, ' two'] }))
    const first = agent.subscribe({ onTextMessageContentEvent: () => agent.abortRun() })
    await agent.runAgent()
    expect(textOf(agent)).toBe('One')
    first.unsubscribe()
    moveTo(two)
    const attached = agent.runAgent({}, { onRunStartedEvent: () => release() })
    await attached
    expect(textOf(agent)).toBe('One two')
    expect(model.requests).toHaveLength(1)
  })

  test('a client answers a question on another node, and attaches again on the first', async () => {
    const { agent, one, two, moveTo } = await startNodes(({ messages }) =>
      messages.at(-1)?.role === 'tool' ? { text: ['Done'] } : { calls: [{ name: 'empty_cart', args: {} }] },
    )
    const page = await one.page(member)
    await offer(page, 'empty_cart')
    await agent.runAgent()
    const resume = agent.pendingInterrupts.map(({ id }) => ({
      interruptId: id,
      status: 'resolved' as const,
      payload: { approved: true },
    }))
    expect(resume).toHaveLength(1)
    const again = agent.clone()
    moveTo(two)
    const resumed = agent.runAgent({ resume })
    const { call_id } = await page.next('tool/call')
    const attached = again.runAgent(
      { resume },
      { onRunStartedEvent: () => page.send({ type: 'tool/result', call_id, result: 'empty' }) },
    )
    await Promise.all([resumed, attached])
    expect([textOf(agent), textOf(again)]).toEqual(['Done', 'Done'])
    await page.settled()
    expect(page.unread('tool/call')).toEqual([])
  })

  test('a run goes on that a client of another node shows, although that node missed the question', async () => {
    const proxy = await startEngineProxy(redisUrl ?? '')
    const [prefix, thread] = [randomUUID(), 'organization:thread']
    const open = async (url: string) => {
      const bus = openRedisBus(url, prefix)
      onTestFinished(() => bus.close())
      return { bus, ...(await createAttendance({ bus, log: createLog('silent') }, 1_000_000)) }
    }
    const [node, other] = [await open(redisUrl ?? ''), await open(proxy.url)]
    const [attached, last, over] = [vi.fn(), vi.fn(), vi.fn()]
    await node.bus.subscribe(attendanceChannel, attached)
    await other.bus.subscribe('last', last)
    other.attach(thread)
    await vi.waitFor(() => expect(attached).toHaveBeenCalled())
    // Messages arrive in order, so the next one that is dropped is the question.
    await node.bus.publish('last', 1)
    await vi.waitFor(() => expect(last).toHaveBeenCalled())
    proxy.mute()
    node.lose(thread, over)
    await proxy.dropped()
    proxy.restore()
    await vi.waitFor(() => expect(over.mock.calls).toEqual([[false]]), patience)
  })
})
