import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { expect, test } from 'vitest'
import { type ServerProcess, useUsedInstallation } from '../processes.ts'

test("a copy of a stopped server's data folder is a backup, which restores a key that was revoked since", async () => {
  const inlay = useUsedInstallation()
  const stop = async (server: ServerProcess) => {
    server.signal('SIGTERM')
    expect((await server.finished).code).toBe(0)
  }
  const first = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  const { body: key } = await first.call('POST', '/api/publishable-keys', { token, body: { name: 'Shop' } })
  await stop(first)
  const backup = `${inlay.dataDir}-backup`
  const copy = (from: string, to: string) => execFileSync('cp', ['-a', from, to])
  copy(inlay.dataDir, backup)

  const second = await inlay.start()
  const useKey = async (server: ServerProcess) =>
    (await server.call('POST', '/api/auth/pk-ticket', { body: { publishable_key: key.key } })).status
  const fresh = await inlay.token('admin@demo.test', 'demo')
  await second.call('DELETE', `/api/publishable-keys/${key.id}`, { token: fresh })
  expect(await useKey(second)).not.toBe(200)
  await stop(second)

  rmSync(inlay.dataDir, { recursive: true })
  copy(backup, inlay.dataDir)
  // As the documentation recommends: all users sign in again.
  for (const file of ['kv.db', 'kv.db-wal', 'kv.db-shm']) rmSync(`${inlay.dataDir}/${file}`, { force: true })
  const restored = await inlay.start()
  expect(await useKey(restored)).toBe(200)
  expect(await inlay.run('audit verify --org demo')).toMatchObject({ code: 0 })
})
