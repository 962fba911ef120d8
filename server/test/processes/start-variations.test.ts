import { expect, test } from 'vitest'
import { useInstallation } from '../processes.ts'

test.each([
  ["with an unusual path that is longer than a socket's may be", { folder: `it's a ${'deep/'.repeat(30)}folder` }],
  ['below a private folder', { mode: 0o700 }],
  ['below a private folder that contains the program too', { mode: 0o700, isWhole: true }],
])('a data folder %s works like any other', async (_, place) => {
  const inlay = useInstallation({}, place)
  const server = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  expect((await server.call('GET', '/api/publishable-keys', { token })).status).toBe(200)
  server.signal('SIGTERM')
  expect((await server.finished).code).toBe(0)
  expect(inlay.postmaster()).toBeUndefined()
})
