import { expect, test, vi } from 'vitest'
import { isAlive, killPid, patience, type ServerProcess, useInstallation } from '../processes.ts'

test('after kill -9 of the server alone, the next one takes over its PostgreSQL and stops it in the end', async () => {
  const inlay = useInstallation()
  const killed = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  await killed.call('POST', '/api/publishable-keys', { token, body: { name: 'before' } })
  const postmaster = inlay.postmaster() ?? 0
  killed.signal('SIGKILL')
  await killed.finished
  expect(isAlive(postmaster)).toBe(true)
  expect(await inlay.run('doctor'), 'commands work on it meanwhile').toMatchObject({ code: 0 })

  const server = await inlay.start()
  expect(inlay.postmaster()).toBe(postmaster)
  expect(await namesOf(server, await inlay.token('admin@demo.test', 'demo'))).toEqual(['before'])
  server.signal('SIGTERM')
  expect((await server.finished).code).toBe(0)
  await vi.waitFor(() => expect(isAlive(postmaster)).toBe(false), patience)
})

test('kill -9 of everything during 1 000 concurrent writes loses none that was acknowledged', async () => {
  const inlay = useInstallation()
  const killed = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  const acknowledged: { id: string; key: string }[] = []
  let failed = 0
  let kill: () => void = () => undefined
  const killing = new Promise<void>((resolve) => {
    kill = resolve
  })
  const writes = Array.from({ length: 1000 }, async (_, index) => {
    try {
      const { status, body } = await killed.call('POST', '/api/publishable-keys', { token, body: { name: `${index}` } })
      if (status === 200) acknowledged.push(body)
      else failed += 1
    } catch {
      failed += 1
    }
    if (acknowledged.length === 200) kill()
  })
  await killing
  const postmaster = inlay.postmaster() ?? 0
  killed.signal('SIGKILL')
  await killPid(postmaster)
  await killed.finished
  await Promise.all(writes)
  expect(failed, 'it was in the middle').toBeGreaterThan(0)

  const server = await inlay.start()
  expect(inlay.postgresLog(), 'it was a crash').toContain('was not properly shut down')
  const fresh = await inlay.token('admin@demo.test', 'demo')
  const { body } = await server.call('GET', '/api/publishable-keys', { token: fresh })
  const kept = new Set(body.keys.map(({ id }: { id: string }) => id))
  expect(acknowledged.filter(({ id }) => !kept.has(id))).toEqual([])
  const last = acknowledged.at(-1)
  expect(await server.call('POST', `/api/publishable-keys/${last?.id}/reveal`, { token: fresh })).toEqual({
    status: 200,
    body: { key: last?.key },
  })

  const halves = await inlay.query(`
    select id, target from publishable_keys full join (
      select target from audit_events where action = 'publishable_key.created'
    ) audit on audit.target = publishable_keys.id::text where id is null or target is null`)
  expect(halves, 'a key and its audit row are there together or not at all').toEqual([])
  const verified = await inlay.run('audit verify --org demo')
  expect(verified.code).toBe(0)
  expect(Number(verified.stdout.match(/demo: (\d+) rows/)?.[1])).toBeGreaterThan(acknowledged.length)
})

async function namesOf(server: ServerProcess, token: string): Promise<string[]> {
  const { body } = await server.call('GET', '/api/publishable-keys', { token })
  return body.keys.map(({ name }: { name: string }) => name)
}
