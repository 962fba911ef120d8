import { inject, onTestFinished } from 'vitest'
import { replyTimeout } from '../src/tools/hub/nodes.ts'
import { type EngineProxy, startEngineProxy } from './engine-proxy.ts'
import { type HttpService, startHttpService } from './http-server.ts'
import { patience } from './processes.ts'
import { type Shop, useShop } from './shop.ts'

/** Two nodes in this process, each with its own clock; the second one's connection to Redis can be cut. */
export interface Pair {
  one: Shop
  two: HttpService
  /** A member on the first node. */
  me: Awaited<ReturnType<Shop['caller']>>
  admin: string
  proxy: EngineProxy
}

export async function startPair(): Promise<Pair> {
  const { ms } = replyTimeout
  replyTimeout.ms = patience.timeout
  onTestFinished(() => void Object.assign(replyTimeout, { ms }))
  const proxy = await startEngineProxy(inject('engines').redisUrl ?? '')
  const one = await useShop()
  const two = await startHttpService({
    DATABASE_URL: one.config.databaseUrl ?? '',
    REDIS_URL: proxy.url,
    INLAY_REDIS_PREFIX: one.config.redisPrefix,
    INLAY_PUBLIC_URL: one.url,
  })
  onTestFinished(() => {
    proxy.restore()
    return two.close()
  })
  const admin = await one.tokenFor('admin@demo.test', 'demo')
  return { one, two, me: await one.caller('member@demo.test'), admin, proxy }
}
