import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createSecrets } from '../../src/kernel/lib/secrets.ts'
import { killRepeatedly } from '../kills.ts'
import { isAlive, killPid, patience, type ServerProcess, useInstallation, useUsedInstallation } from '../processes.ts'

test('after kill -9 of only the server, the next one takes over its PostgreSQL and finally stops it', async () => {
  const inlay = useUsedInstallation()
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

test('kill -9 of everything during concurrent writes loses no acknowledged write', async () => {
  const inlay = useUsedInstallation()
  const killed = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  const acknowledged: { id: string; key: string }[] = []
  let failed = 0
  let kill: () => void = () => undefined
  const killing = new Promise<void>((resolve) => {
    kill = resolve
  })
  const clients = Array.from({ length: 50 }, async (_, client) => {
    for (let turn = 0; failed === 0; turn += 1) {
      try {
        const body = { name: `${client}/${turn}` }
        const answer = await killed.call('POST', '/api/publishable-keys', { token, body })
        if (answer.status === 200) acknowledged.push(answer.body)
        if (acknowledged.length >= 200) kill()
      } catch {
        failed += 1
      }
    }
  })
  await killing
  const postmaster = inlay.postmaster() ?? 0
  killed.signal('SIGKILL')
  await killPid(postmaster)
  await killed.finished
  await Promise.all(clients)
  expect(failed, 'it was interrupted').toBeGreaterThan(0)

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
  expect(halves, 'a key and its audit row exist together or not at all').toEqual([])
  const verified = await inlay.run('audit verify --org demo')
  expect(verified.code).toBe(0)
  expect(Number(verified.stdout.match(/demo: (\d+) rows/)?.[1])).toBeGreaterThan(acknowledged.length)
})

test('kill -9 of the server, 5 times, and of its PostgreSQL, twice, during writes loses no acknowledged write', {
  timeout: 600_000,
}, async () => {
  const { dataDir } = useUsedInstallation()
  const { lost, halves, failures, audit, acknowledged } = await killRepeatedly({
    dataDir,
    serverKills: 5,
    postgresKills: 2,
  })
  expect({ lost, halves }).toEqual({ lost: [], halves: [] })
  expect(Object.keys(failures).sort(), 'clients can tell that they may retry').toEqual([
    '503 with Retry-After',
    'no answer',
  ])
  expect(Number(audit.match(/demo: (\d+) rows/)?.[1])).toBeGreaterThan(acknowledged)
})

test('kill -9 of a PostgreSQL process ends neither the server nor its lock on the folder', async () => {
  const inlay = useUsedInstallation()
  const server = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  await server.call('POST', '/api/publishable-keys', { token, body: { name: 'before' } })
  const postmaster = inlay.postmaster()
  const backends = () =>
    inlay.query<{ pid: number }>(`select pid from pg_stat_activity where backend_type = 'client backend'`)
  for (const { pid } of await backends()) await killPid(pid)
  expect(await inlay.run('start'), 'immediately').toMatchObject({
    code: 1,
    stderr: expect.stringContaining('Another Inlay server uses the data folder'),
  })
  await vi.waitFor(async () => expect((await server.call('GET', '/readyz')).status).toBe(200), patience)
  expect(await inlay.run('start'), 'later').toMatchObject({ code: 1 })
  expect(inlay.postmaster()).toBe(postmaster)
  expect(await namesOf(server, token)).toEqual(['before'])

  server.signal('SIGTERM')
  expect((await server.finished).code).toBe(0)
  expect(inlay.postmaster(), 'it is stopped in the end').toBeUndefined()
})

test('does not wait for a suspended PostgreSQL, and serves again when it continues', async () => {
  const inlay = useUsedInstallation()
  const server = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  expect(await namesOf(server, token)).toEqual([])
  const processes = [
    inlay.postmaster() ?? 0,
    ...(await inlay.query<{ pid: number }>('select pid from pg_stat_activity where pid <> pg_backend_pid()')).map(
      ({ pid }) => pid,
    ),
  ]
  const signal = (name: NodeJS.Signals) => {
    for (const pid of processes) if (isAlive(pid)) process.kill(pid, name)
  }
  onTestFinished(() => signal('SIGCONT'))
  signal('SIGSTOP')
  const read = () => server.call('GET', '/api/publishable-keys', { token })
  const many = Array.from({ length: 30 }, read)
  const ready = server.call('GET', '/readyz')
  const first = await Promise.race([ready, ...many])
  expect(first, 'readiness responds before anything else').toEqual(await ready)
  expect(first).toMatchObject({ status: 503, body: { stores: { database: 'unavailable', kv: 'ok' } } })
  expect(new Set((await Promise.all(many)).map(({ status }) => status))).toEqual(new Set([503]))
  signal('SIGCONT')
  await vi.waitFor(async () => expect((await read()).status).toBe(200), patience)
})

// A file system with a fixed size needs root, and Linux.
const isRoot = process.platform === 'linux' && process.getuid?.() === 0
test.runIf(isRoot)(
  'a full disk fails requests, never the process, and they succeed again when there is space',
  async () => {
    const inlay = useInstallation()
    mkdirSync(inlay.dataDir)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128m,mode=755', 'tmpfs', inlay.dataDir])
    onTestFinished(() => void execFileSync('umount', ['--lazy', inlay.dataDir]))
    const server = await inlay.start()
    const token = await inlay.token('admin@demo.test', 'demo')
    const writes = {
      database: () => server.call('POST', '/api/publishable-keys', { token, body: { name: 'x'.repeat(100) } }),
      kv: () => server.call('POST', '/oauth/register', { body: { redirect_uris: ['https://app.example/done'] } }),
    }
    const filler = join(inlay.dataDir, 'filler')
    fill(filler)
    const failed = { database: new Set<number>(), kv: new Set<number>() }
    for (const kind of ['database', 'kv'] as const) {
      await vi.waitFor(async () => {
        const { status } = await writes[kind]()
        if (status >= 300) failed[kind].add(status)
        expect(status).toBeGreaterThan(300)
      }, patience)
      for (let n = 0; n < 10; n += 1) failed[kind].add((await writes[kind]()).status)
    }
    // Some small writes still fit.
    for (const statuses of Object.values(failed)) expect([...statuses].filter((status) => status >= 300)).toEqual([503])

    rmSync(filler)
    await vi.waitFor(async () => expect((await writes.database()).status).toBe(200), patience)
    await vi.waitFor(async () => expect((await writes.kv()).status).toBe(201), patience)
    server.signal('SIGTERM')
    expect((await server.finished).code, 'it is the same process').toBe(0)

    fill(filler)
    expect(await inlay.launch().finished, 'a start names the cause').toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^inlay: The disk of the data folder .* is full: .*\. Free some space\.\n$/),
    })
    rmSync(filler)
    await inlay.start()
  },
)

/** Fills the file system of a path. */
function fill(path: string): void {
  const file = openSync(path, 'w')
  try {
    for (const chunk = Buffer.alloc(64 * 1024); ; ) writeSync(file, chunk)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    closeSync(file)
  }
}

test('after kill -9 in the middle of a table, a secret rotation leaves everything readable, and the next run completes it', async () => {
  const inlay = useUsedInstallation()
  const oldSecret = readFileSync(join(inlay.dataDir, 'secret'), 'utf8').trim()
  const newSecret = randomBytes(32).toString('base64')
  const both = { INLAY_SECRET: `${newSecret},${oldSecret}` }
  const serve = async (env: { INLAY_SECRET: string }) => {
    const server = await inlay.start(env)
    const token = (await inlay.run('token --email admin@demo.test --org demo', env)).stdout.trim()
    const reveal = async (id: string) =>
      (await server.call('POST', `/api/publishable-keys/${id}/reveal`, { token })).body.key
    const stop = async () => {
      server.signal('SIGTERM')
      expect((await server.finished).code).toBe(0)
    }
    return { server, token, stop, revealAll: () => Promise.all(keys.map(({ id }) => reveal(id))) }
  }
  const keys: { id: string; key: string }[] = []
  const before = await serve({ INLAY_SECRET: oldSecret })
  for (let n = 0; n < 12; n += 1) {
    const { token } = before
    keys.push((await before.server.call('POST', '/api/publishable-keys', { token, body: { name: `${n}` } })).body)
  }
  await before.stop()

  const during = await serve(both)
  const { isCurrent } = createSecrets([newSecret, oldSecret])
  const countCurrent = async () => {
    const rows = await inlay.query<{ key_sealed: string }>('select key_sealed from publishable_keys')
    return rows.filter(({ key_sealed }) => isCurrent(key_sealed)).length
  }
  expect(await countCurrent()).toBe(0)
  // Blocks the rotation at one row, wherever it is in the table.
  const holder = await inlay.connect()
  await holder.query('begin')
  await holder.query('select from publishable_keys where id = $1 for update', [keys[6]?.id])
  const rotation = inlay.launch(both, 'secret rotate')
  const waiting = () => inlay.query(`select pid from pg_stat_activity where wait_event_type = 'Lock'`)
  await vi.waitFor(async () => expect(await waiting()).toHaveLength(1), patience)
  rotation.signal('SIGKILL')
  expect((await rotation.finished).code).toBe('SIGKILL')
  const [{ pid }] = (await waiting()) as [{ pid: number }]
  await holder.query('select pg_terminate_backend($1)', [pid])
  await holder.query('rollback')
  await holder.end()
  const done = await countCurrent()
  expect(done, 'it was interrupted').toBeGreaterThan(0)
  expect(done).toBeLessThan(keys.length)
  const plain = keys.map(({ key }) => key)
  expect(await during.revealAll()).toEqual(plain)

  const again = await inlay.run('secret rotate', both)
  expect(again).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^Re-encrypted [1-9]\d* values?/) })
  expect(await countCurrent()).toBe(keys.length)
  expect(await during.revealAll()).toEqual(plain)
  await during.stop()
  const after = await serve({ INLAY_SECRET: newSecret })
  expect(await after.revealAll()).toEqual(plain)
  await after.stop()
})

async function namesOf(server: ServerProcess, token: string): Promise<string[]> {
  const { body } = await server.call('GET', '/api/publishable-keys', { token })
  return body.keys.map(({ name }: { name: string }) => name)
}
