import { connectRedis } from '../../server/src/kernel/stores/redis.ts'

/** Options of a peer: the number of clients, and the Redis for its data. Without Redis, it uses its memory. */
export function readOptions() {
  const { count, redisUrl } = JSON.parse(process.argv[2] ?? '') as { count: number; redisUrl?: string }
  return { count, redis: redisUrl === undefined ? undefined : connectRedis(redisUrl) }
}
