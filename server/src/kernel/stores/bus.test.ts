import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { startEngineProxy } from '../../../test/engine-proxy.ts'
import { newId } from '../lib/ids.ts'
import { type Bus, openLocalBus } from './bus.ts'
import { connectRedis, openRedisBus } from './redis.ts'

const { redisUrl } = inject('engines')

function openBus(prefix: string, onError?: (error: Error) => void): Bus {
  const bus = redisUrl ? openRedisBus(redisUrl, prefix, onError) : openLocalBus()
  onTestFinished(() => bus.close())
  return bus
}

/** Two nodes of one installation; without Redis, both are the same node. */
function openNodes(onError?: (error: Error) => void): { prefix: string; bus: Bus; other: Bus } {
  const prefix = newId()
  const bus = openBus(prefix, onError)
  return { prefix, bus, other: redisUrl ? openBus(prefix) : bus }
}

/** Records the messages that it receives. */
function listener() {
  const heard: unknown[] = []
  return { heard, hear: (message: unknown) => void heard.push(message) }
}

/**
 * Messages of one channel arrive in order, so a node that receives this one has received or missed all earlier ones.
 */
async function publishLast({ bus, other }: { bus: Bus; other: Bus }, channel: string): Promise<void> {
  const { heard, hear } = listener()
  const end = await bus.subscribe(channel, hear)
  await other.publish(channel, 'last')
  await vi.waitFor(() => expect(heard).toEqual(['last']))
  await end()
}

test('delivers a message once to every subscriber of its channel, and to no others', async () => {
  const nodes = openNodes()
  const { bus } = nodes
  const [first, second, stranger] = [listener(), listener(), listener()]
  await bus.subscribe('news', first.hear)
  await bus.subscribe('news', second.hear)
  await bus.subscribe('newsletter', stranger.hear)
  const message = { id: 1, list: ['ü', null, { a: true }] }
  await bus.publish('news', message)
  await publishLast(nodes, 'news')
  await publishLast(nodes, 'newsletter')
  expect(first.heard).toEqual([message, 'last'])
  expect(second.heard).toEqual([message, 'last'])
  expect(stranger.heard).toEqual(['last'])
})

test('delivers a message on its own node before publishing returns', async () => {
  const { bus } = openNodes()
  const { heard, hear } = listener()
  await bus.subscribe('news', hear)
  await bus.publish('news', 1)
  expect(heard).toEqual([1])
})

test('delivers the messages of another node in order', async () => {
  const { bus, other } = openNodes()
  const { heard, hear } = listener()
  await bus.subscribe('news', hear)
  const messages = Array.from({ length: 200 }, (_, number) => ({ number }))
  await Promise.all(messages.map((message) => other.publish('news', message)))
  await vi.waitFor(() => expect(heard).toEqual(messages))
})

test('stops delivering to an ended subscription, and continues for the others', async () => {
  const nodes = openNodes()
  const [leaving, staying] = [listener(), listener()]
  const end = await nodes.bus.subscribe('news', leaving.hear)
  await nodes.bus.subscribe('news', staying.hear)
  await end()
  await end()
  await nodes.bus.publish('news', 1)
  await publishLast(nodes, 'news')
  expect(leaving.heard).toEqual([])
  expect(staying.heard).toEqual([1, 'last'])
})

test('accepts a new subscription after the last one of a channel ended', async () => {
  const nodes = openNodes()
  const [first, second] = [listener(), listener()]
  await (await nodes.bus.subscribe('news', first.hear))()
  await nodes.bus.subscribe('news', second.hear)
  await publishLast(nodes, 'news')
  expect(first.heard).toEqual([])
  expect(second.heard).toEqual(['last'])
})

test('resolves with the number of nodes that a message was for', async () => {
  const { bus, other } = openNodes()
  expect(await bus.publish('news', 1), 'without subscribers').toBe(0)
  await bus.subscribe('news', listener().hear)
  await bus.subscribe('news', listener().hear)
  expect([await bus.publish('news', 1), await other.publish('news', 1)]).toEqual([1, 1])
  await other.subscribe('news', listener().hear)
  expect(await bus.publish('news', 1)).toBe(bus === other ? 1 : 2)
})

test('returns from each of two concurrent subscriptions once it is active', async () => {
  const { bus, other } = openNodes()
  const [first, second] = [listener(), listener()]
  const firstInForce = bus.subscribe('news', first.hear)
  await bus.subscribe('news', second.hear)
  await other.publish('news', 1)
  await vi.waitFor(() => expect(second.heard).toEqual([1]))
  await firstInForce
  await other.publish('news', 2)
  await vi.waitFor(() => expect(first.heard.at(-1)).toBe(2))
  expect(second.heard).toEqual([1, 2])
})

describe.runIf(redisUrl)('over Redis', () => {
  test('isolates installations with different prefixes', async () => {
    const [ours, theirs] = [openNodes(), openNodes()]
    const { heard, hear } = listener()
    await ours.bus.subscribe('news', hear)
    await theirs.bus.publish('news', 'theirs')
    await publishLast(ours, 'news')
    expect(heard).toEqual(['last'])
  })

  test.each([
    ['is not JSON', 'not json', /JSON/],
    ['a subscriber fails on', '{"from":"another node","message":{"fail":true}}', /failed/],
  ])('reports a message that %s, and delivers the next one', async (_, text, problem) => {
    const onError = vi.fn()
    const { prefix, bus, other } = openNodes(onError)
    const heard: unknown[] = []
    await bus.subscribe<{ fail?: true }>('news', (message) => {
      if (message.fail) throw new Error('failed')
      heard.push(message)
    })
    const redis = connectRedis(redisUrl ?? '')
    onTestFinished(() => redis.disconnect())
    await redis.publish(`${prefix}:news`, text)
    await other.publish('news', { id: 1 })
    await vi.waitFor(() => expect(heard).toEqual([{ id: 1 }]))
    expect(onError.mock.calls).toEqual([[expect.objectContaining({ message: expect.stringMatching(problem) })]])
  })
  test('survives a reconnect on which Redis doesn’t respond, and subscribes on the next connection', async () => {
    const proxy = await startEngineProxy(redisUrl ?? '')
    const prefix = newId()
    const onError = vi.fn()
    const bus = openRedisBus(proxy.url, prefix, onError, 500)
    onTestFinished(() => bus.close())
    const other = openBus(prefix)
    const { heard, hear } = listener()
    await bus.subscribe('news', hear)
    const missed = vi.fn()
    bus.onMissed(missed)
    proxy.cut()
    proxy.restore()
    proxy.mute()
    const timedOut = expect.objectContaining({ message: 'Command timed out' })
    await vi.waitFor(() => expect(onError).toHaveBeenCalledWith(timedOut))
    expect(missed).not.toHaveBeenCalled()
    proxy.restore()
    await vi.waitFor(() => expect(missed).toHaveBeenCalled())
    await other.publish('news', 'after')
    await vi.waitFor(() => expect(heard).toEqual(['after']))
  })

  test('ends a subscription even if Redis doesn’t respond', async () => {
    const proxy = await startEngineProxy(redisUrl ?? '')
    const bus = openRedisBus(proxy.url, newId(), undefined, 500)
    onTestFinished(() => bus.close())
    const end = await bus.subscribe('news', () => undefined)
    proxy.cut()
    await end()
  })
})
