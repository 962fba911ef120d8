import { Redis, ReplyError } from 'ioredis'
import { serviceUnavailable } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { addHandler, type Bus, deliver, type Handlers } from './bus.ts'
import { type Engine, type Kv, type KvOptions, sealed } from './kv.ts'

// The stores on Redis or Valkey. Imported only if REDIS_URL is set, to save memory.

export const openRedisKv = (url: string, prefix: string, { secrets, onError, answerWithinMs }: KvOptions): Kv =>
  sealed(redisEngine(connectRedis(url, onError, answerWithinMs), prefix), secrets)

const replaceScript = `
  if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
  redis.call('set', KEYS[1], ARGV[2], 'keepttl')
  return 1`

const countScript = `
  local value = redis.call('incr', KEYS[1])
  if value == 1 and ARGV[1] ~= '' then redis.call('pexpire', KEYS[1], ARGV[1]) end
  return value`

/**
 * How long commands fail at once after one that Redis didn't answer, so that a request that needs several of them
 * doesn't wait for each.
 */
const silentMs = 1_000
/** The library's message about a command without an answer. */
const timedOut = 'Command timed out'

/** Redis is up but temporarily can't serve the command: it is loading, full, a replica, or lacks replicas. */
const passingRefusal = /^(LOADING|BUSY|MASTERDOWN|READONLY|OOM|MISCONF|CLUSTERDOWN|TRYAGAIN|NOREPLICAS) /

function redisEngine(redis: Redis, prefix: string): Engine {
  const name = (key: string) => `${prefix}:${key}`
  const expiry = (ttlMs: number | undefined) => (ttlMs === undefined ? [] : (['PX', ttlMs] as const))
  let silentUntil = 0
  async function ask<T>(command: () => Promise<T>): Promise<T> {
    if (performance.now() < silentUntil) throw serviceUnavailable('The key-value store is not reachable')
    try {
      return await command()
    } catch (error) {
      const { message } = error as Error
      if (message === timedOut) silentUntil = performance.now() + silentMs
      // Errors that aren't replies from Redis are connection errors or timeouts.
      const isPassing = !(error instanceof ReplyError) || passingRefusal.test(message)
      throw isPassing ? serviceUnavailable('The key-value store is not reachable', error) : error
    }
  }
  return {
    get: async (key) => (await ask(() => redis.get(name(key)))) ?? undefined,
    set: async (key, value, ttlMs) => void (await ask(() => redis.call('SET', name(key), value, ...expiry(ttlMs)))),
    setIfAbsent: async (key, value, ttlMs) =>
      (await ask(() => redis.call('SET', name(key), value, ...expiry(ttlMs), 'NX'))) === 'OK',
    take: async (key) => (await ask(() => redis.getdel(name(key)))) ?? undefined,
    delete: async (key) => void (await ask(() => redis.del(name(key)))),
    count: async (key, ttlMs) => (await ask(() => redis.eval(countScript, 1, name(key), ttlMs ?? ''))) as number,
    async *keys() {
      const match = `${prefix.replace(/[\\*?[\]]/g, '\\$&')}:*`
      for await (const batch of redis.scanStream({ match, count: 500 })) {
        for (const key of batch as string[]) yield key.slice(prefix.length + 1)
      }
    },
    replace: async (key, before, after) =>
      (await ask(() => redis.eval(replaceScript, 1, name(key), before, after))) === 1,
    ping: async () => void (await ask(() => redis.ping())),
    close: async () => void (await redis.quit().catch(() => redis.disconnect())),
  }
}

/**
 * Sends commands immediately, without waiting for earlier replies. (Auto-pipelining would make the commands of one turn
 * wait for those of the previous turn, and builds an object with 400 methods each time.) Commands that can't be
 * delivered fail soon instead of waiting for Redis to return, because a caller must not believe that a value was
 * stored. An unresponsive connection fails the commands sent on it, and is replaced.
 */
export function connectRedis(url: string, onError?: (error: Error) => void, answerWithinMs = 5_000): Redis {
  const options = {
    maxRetriesPerRequest: 1,
    commandTimeout: answerWithinMs,
    socketTimeout: answerWithinMs,
    connectTimeout: answerWithinMs,
    retryStrategy: (attempt: number) => Math.min(attempt * 100, 2_000),
    // If Redis didn't respond to it, the rejection would be unhandled and end the process. The bus resubscribes itself.
    autoResubscribe: false,
  }
  const redis = url.startsWith('unix:')
    ? new Redis({ ...options, path: new URL(url).pathname })
    : new Redis(url, options)
  redis.on('error', (error: Error) => onError?.(error))
  return redis
}

const heartbeatMs = 5_000

export function openRedisBus(
  url: string,
  prefix: string,
  onError?: (error: Error) => void,
  answerWithinMs?: number,
): Bus {
  const handlers: Handlers = new Map()
  const missed = new Set<() => void>()
  const publisher = connectRedis(url, onError, answerWithinMs)
  const subscriber = connectRedis(url, onError, answerWithinMs)
  const name = (channel: string) => `${prefix}:${channel}`
  const self = newId()
  let isConnectedBefore = false
  subscriber.on('ready', () => {
    if (isConnectedBefore) resubscribe().catch((error) => onError?.(error))
    isConnectedBefore = true
  })
  // Detects an unresponsive connection, which would otherwise stay open without delivering messages.
  const heartbeat = setInterval(() => subscriber.ping().catch(() => undefined), heartbeatMs)
  heartbeat.unref()

  /** A connection on which this fails is replaced. */
  async function resubscribe(): Promise<void> {
    try {
      if (handlers.size > 0) await subscriber.subscribe(...[...handlers.keys()].map(name))
    } catch (error) {
      subscriber.disconnect(true)
      throw error
    }
    for (const handler of missed) handler()
  }

  subscriber.on('message', (channel: string, text: string) => {
    try {
      const { from, message } = JSON.parse(text)
      if (from !== self) deliver(handlers, channel.slice(prefix.length + 1), message)
    } catch (error) {
      // An error thrown in this handler would crash the process.
      onError?.(error as Error)
    }
  })
  return {
    async publish(channel, message) {
      // Bypasses Redis on this node, because a change must apply to the next request on the same node.
      deliver(handlers, channel, message)
      return publisher.publish(name(channel), JSON.stringify({ from: self, message }))
    },
    async subscribe(channel, handler) {
      addHandler(handlers, channel, handler)
      await subscriber.subscribe(name(channel))
      return async () => {
        const rest = handlers.get(channel)
        rest?.delete(handler)
        if (rest?.size === 0) {
          handlers.delete(channel)
          // A node must be able to stop while Redis is unreachable. Nobody receives what still arrives.
          await subscriber.unsubscribe(name(channel)).catch((error) => onError?.(error))
        }
      }
    },
    onMissed: (handler) => void missed.add(handler),
    close: async () => {
      clearInterval(heartbeat)
      await Promise.all([publisher, subscriber].map((redis) => redis.quit().catch(() => redis.disconnect())))
    },
  }
}
