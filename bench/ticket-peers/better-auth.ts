// Verifies API keys of better-auth. Verification is a server function without a route, so this adds a minimal one. It
// uses the fastest store, `secondaryStorage`, with a map or Redis, writes "last used" after the response, and turns
// rate limits off.
import { createServer } from 'node:http'
import { apiKey } from '@better-auth/api-key'
import { betterAuth } from 'better-auth'
import { memoryAdapter } from 'better-auth/adapters/memory'
import { announce } from './announce.ts'
import { readOptions } from './options.ts'

const { count, redis } = readOptions()
const entries = new Map<string, string>()
const inMemory = {
  get: (key: string) => entries.get(key) ?? null,
  set: (key: string, value: string) => void entries.set(key, value),
  delete: (key: string) => void entries.delete(key),
}
const onRedis = redis && {
  get: (key: string) => redis.get(key),
  set: async (key: string, value: string, seconds?: number) =>
    void (await (seconds === undefined ? redis.set(key, value) : redis.set(key, value, 'EX', seconds))),
  delete: async (key: string) => void (await redis.del(key)),
}
const unused = () => {
  throw new Error('Not used by verification')
}
const auth = betterAuth({
  baseURL: 'http://localhost',
  secret: 'Zk3vR8pQ1xW6nB4mT9yL2sD7fH5jC0aE',
  database: memoryAdapter({ user: [], session: [], account: [], verification: [], apikey: [] }),
  secondaryStorage: { ...(onRedis ?? inMemory), getAndDelete: unused, increment: unused },
  advanced: { backgroundTasks: { handler: () => undefined } },
  emailAndPassword: { enabled: true },
  rateLimit: { enabled: false },
  logger: { disabled: true },
  plugins: [apiKey({ storage: 'secondary-storage', deferUpdates: true, rateLimit: { enabled: false } })],
})
const { user } = await auth.api.signUpEmail({
  body: { email: 'ann@example.com', password: 'correct horse', name: 'Ann' },
})
const keys = await Promise.all(
  Array.from({ length: count }, async () => (await auth.api.createApiKey({ body: { userId: user.id } })).key),
)

announce(
  createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', async () => {
      const { key } = JSON.parse(Buffer.concat(chunks).toString())
      const result = await auth.api.verifyApiKey({ body: { key } })
      const body = JSON.stringify(result)
      const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
      response.writeHead(result.valid ? 200 : 401, headers).end(body)
    })
  }),
  { keys },
)
