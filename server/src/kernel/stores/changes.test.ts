import { Writable } from 'node:stream'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { startEngineProxy } from '../../../test/engine-proxy.ts'
import { newId } from '../lib/ids.ts'
import { createLog } from '../lib/log.ts'
import { openLocalBus } from './bus.ts'
import { announceAll, type Changes, openChanges } from './changes.ts'
import { connectRedis, openRedisBus } from './redis.ts'

const { redisUrl } = inject('engines')

async function openNode(prefix: string, url = redisUrl) {
  const logged: string[] = []
  const log = createLog('warn', new Writable({ write: (line, _, done) => done(void logged.push(String(line))) }))
  const changes = await openChanges(url ? openRedisBus(url, prefix) : openLocalBus(), log)
  onTestFinished(() => changes.close())
  return { changes, heard: listen(changes), logged }
}

function listen(changes: Changes): string[] {
  const heard: string[] = []
  changes.watch({ changed: (topic) => heard.push(topic), missed: () => heard.push('missed') })
  return heard
}

test('an announcement takes effect on its own node before it returns', async () => {
  const { changes, heard } = await openNode(newId())
  changes.announce('user:1', 'key:2')
  expect(heard).toEqual(['user:1', 'key:2'])
})

test('a failing watcher affects neither the other watchers nor the caller', async () => {
  const { changes } = await openNode(newId())
  changes.watch({
    changed() {
      throw new Error('failed')
    },
    missed: () => undefined,
  })
  const heard = listen(changes)
  changes.announce('user:1')
  expect(heard).toEqual(['user:1'])
})

test('any number of changes is announced in messages of at most 500', async () => {
  const messages: string[][] = []
  const changes = { announce: (...topics: string[]) => void messages.push(topics) } as Changes
  const topics = Array.from({ length: 1_200 }, (_, number) => `user:${number}`)
  announceAll(changes, topics)
  expect(messages.map(({ length }) => length)).toEqual([500, 500, 200])
  expect(messages.flat()).toEqual(topics)
})

test('an ended watch receives nothing', async () => {
  const { changes } = await openNode(newId())
  const heard: string[] = []
  changes.watch({ changed: (topic) => heard.push(topic), missed: () => undefined })()
  changes.announce('user:1')
  expect(heard).toEqual([])
})

describe.runIf(redisUrl)('over Redis', () => {
  test('an announcement reaches the other nodes', async () => {
    const prefix = newId()
    const [one, other] = [await openNode(prefix), await openNode(prefix)]
    one.changes.announce('user:1')
    await vi.waitFor(() => expect(other.heard).toEqual(['user:1']))
  })

  test('a node whose subscription broke is told that it missed changes, and then receives the next one', async () => {
    const prefix = newId()
    const [one, other] = [await openNode(prefix), await openNode(prefix)]
    const redis = connectRedis(redisUrl as string)
    onTestFinished(() => redis.disconnect())
    await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await vi.waitFor(() => expect(other.heard).toContain('missed'))
    one.changes.announce('user:1')
    await vi.waitFor(() => expect(other.heard.at(-1)).toBe('user:1'))
  })

  test('an announcement succeeds while Redis is unavailable, and is sent when it returns', async () => {
    const prefix = newId()
    const proxy = await startEngineProxy(redisUrl as string)
    const [behind, other] = [await openNode(prefix, proxy.url), await openNode(prefix)]
    proxy.cut()
    behind.changes.announce('user:1')
    behind.changes.announce('user:2')
    expect(behind.heard).toEqual(['user:1', 'user:2'])
    await vi.waitFor(() => expect(behind.logged.length).toBeGreaterThanOrEqual(2))
    proxy.restore()
    await vi.waitFor(() => expect(new Set(other.heard)).toEqual(new Set(['user:1', 'user:2'])))
  })

  test('after too many unsent announcements, the other nodes are told that they missed changes', async () => {
    const prefix = newId()
    const proxy = await startEngineProxy(redisUrl as string)
    const [behind, other] = [await openNode(prefix, proxy.url), await openNode(prefix)]
    proxy.cut()
    for (let number = 0; number < 1_500; number += 1) behind.changes.announce(`user:${number}`)
    await vi.waitFor(() => expect(behind.logged.length).toBeGreaterThanOrEqual(1_500))
    proxy.restore()
    await vi.waitFor(() => expect(other.heard).toContain('missed'))
  })
})
