import { connectRedis } from '../../server/src/stores/redis.ts'

/** What a peer is started with: so many clients, and where to keep what it keeps, if not in its memory. */
export function readOptions() {
  const { count, redisUrl } = JSON.parse(process.argv[2] ?? '') as { count: number; redisUrl?: string }
  return { count, redis: redisUrl === undefined ? undefined : connectRedis(redisUrl) }
}
