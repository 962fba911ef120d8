import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { newId } from '../lib/ids.ts'
import { createSecrets, type Secrets, UnreadableSecret } from '../lib/secrets.ts'
import { type Kv, openFileKv } from './kv.ts'
import { connectRedis, openRedisKv } from './redis.ts'

const { redisUrl } = inject('engines')
const [oldSecret, newSecret] = ['old-secret-0123456789-abcdefghijklmno', 'new-secret-0123456789-abcdefghijklmno']

/** An empty store of the current engine. Its handles are closed when the test ends. */
function useStore() {
  const folder = mkdtempSync(join(tmpdir(), 'inlay-kv-'))
  const path = join(folder, 'kv.db')
  const prefix = newId()
  const clock = { now: Date.now() }
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return {
    path,
    prefix,
    /** Redis uses its own clock, so its values expire in real time. */
    clock,
    open(secrets: Secrets | readonly string[] = [oldSecret], at = { path, prefix }): Kv {
      const options = { secrets: 'seal' in secrets ? secrets : createSecrets(secrets), clock: () => clock.now }
      const kv = redisUrl ? openRedisKv(redisUrl, at.prefix, options) : openFileKv(at.path, options)
      onTestFinished(() => kv.close())
      return kv
    },
    /** Direct access to the engine. */
    raw: redisUrl ? rawRedis(redisUrl, prefix) : rawFile(path),
  }
}

interface Raw {
  /** The stored value of a key, and when it expires. */
  read(key: string): Promise<{ value: string; expiresAt: number | null }>
  write(key: string, value: string): Promise<void>
}

function rawFile(path: string): Raw {
  const use = <T>(work: (file: DatabaseSync) => T): T => {
    const file = new DatabaseSync(path)
    try {
      return work(file)
    } finally {
      file.close()
    }
  }
  const readEntry = 'select value, expires_at as "expiresAt" from entries where key = ?'
  return {
    read: async (key) =>
      use((file) => ({ ...(file.prepare(readEntry).get(key) as { value: string; expiresAt: number | null }) })),
    write: async (key, value) =>
      use((file) => void file.prepare('insert into entries (key, value) values (?, ?)').run(key, value)),
  }
}

function rawRedis(url: string, prefix: string): Raw {
  const redis = connectRedis(url)
  onTestFinished(() => redis.disconnect())
  return {
    async read(key) {
      const expiresAt = await redis.pexpiretime(`${prefix}:${key}`)
      return { value: (await redis.get(`${prefix}:${key}`)) ?? '', expiresAt: expiresAt < 0 ? null : expiresAt }
    },
    write: async (key, value) => void (await redis.set(`${prefix}:${key}`, value)),
  }
}

const times = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i))

describe('a value', () => {
  test.each([['text'], [''], [0], [false], [null], [['a', { b: 'ü🙂\0' }]], [{ long: 'x'.repeat(100_000) }]])(
    'is returned unchanged: %j',
    async (value) => {
      const kv = useStore().open()
      await kv.set('key', value)
      expect(await kv.get('key')).toEqual(value)
      expect(await kv.take('key')).toEqual(value)
      expect(await kv.get('key')).toBeUndefined()
    },
  )

  test('can be replaced and deleted', async () => {
    const kv = useStore().open()
    expect(await kv.get('key')).toBeUndefined()
    await kv.set('key', 1)
    await kv.set('key', 2)
    expect(await kv.get('key')).toBe(2)
    await kv.delete('key')
    await kv.delete('key')
    expect(await kv.get('key')).toBeUndefined()
  })

  test('is still there when the store is opened again', async () => {
    const store = useStore()
    const first = store.open()
    await first.set('key', 'kept')
    await first.close()
    expect(await store.open().get('key')).toBe('kept')
  })

  test.runIf(redisUrl)('is not seen by another installation on the same Redis', async () => {
    const store = useStore()
    await store.open().set('key', 1)
    expect(await store.open([oldSecret], { path: '', prefix: newId() }).get('key')).toBeUndefined()
  })

  test.skipIf(redisUrl)('is stored in a file that other users cannot read', () => {
    const store = useStore()
    store.open()
    const files = ['', '-wal', '-shm'].map((suffix) => store.path + suffix)
    expect(files.map((file) => statSync(file).mode & 0o777)).toEqual([0o600, 0o600, 0o600])
  })
})

describe('a time to live', () => {
  const seconds = 0.3

  test.each<[string, (kv: Kv) => Promise<unknown>]>([
    ['get', (kv) => kv.get('key')],
    ['take', (kv) => kv.take('key')],
  ])('ends a value for %s', async (_, read) => {
    const { open, clock } = useStore()
    const kv = open()
    await kv.set('key', 'short', seconds)
    await kv.set('other', 'long', 60)
    await kv.set('third', 'for ever')
    // Redis has its own clock, which doesn't stand still.
    if (!redisUrl) expect(await kv.get('key')).toBe('short')
    clock.now += seconds * 1000
    // Polls with `get`, because `take` would delete the value itself.
    await vi.waitFor(async () => expect(await kv.get('key')).toBeUndefined())
    expect(await read(kv)).toBeUndefined()
    expect([await kv.get('other'), await kv.get('third')]).toEqual(['long', 'for ever'])
  })

  test('ends a value for setIfAbsent', async () => {
    const { open, clock } = useStore()
    const kv = open()
    expect(await kv.setIfAbsent('other', 'first', 60)).toBe(true)
    expect(await kv.setIfAbsent('key', 'first', seconds)).toBe(true)
    expect(await kv.setIfAbsent('other', 'second', 60)).toBe(false)
    clock.now += seconds * 1000
    await vi.waitFor(async () => expect(await kv.setIfAbsent('key', 'third')).toBe(true))
    expect([await kv.get('key'), await kv.get('other')]).toEqual(['third', 'first'])
  })

  test.skipIf(redisUrl)('is exact to the millisecond', async () => {
    const { open, clock } = useStore()
    const kv = open()
    await kv.set('key', 1, 60)
    clock.now += 59_999
    expect(await kv.get('key')).toBe(1)
    clock.now += 1
    expect(await kv.get('key')).toBeUndefined()
  })

  test('restarts when a value is set again, and is removed when it is set without one', async () => {
    const { open, raw, clock } = useStore()
    const kv = open()
    const left = async () => ((await raw.read('key')).expiresAt ?? Number.NaN) - (redisUrl ? Date.now() : clock.now)
    await kv.set('key', 1, 60)
    await kv.set('key', 2, 600)
    expect(await left()).toSatisfy((ms: number) => ms > 500_000 && ms <= 600_000)
    await kv.set('key', 3)
    expect(await left()).toBeNaN()
  })

  test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])('cannot be %s', async (ttl) => {
    const kv = useStore().open()
    await expect(kv.set('key', 1, ttl)).rejects.toThrow(RangeError)
    await expect(kv.setIfAbsent('key', 1, ttl)).rejects.toThrow(RangeError)
    expect(await kv.get('key')).toBeUndefined()
  })
})

describe.skipIf(redisUrl)('the sweep of a file', () => {
  const countEntries = (path: string) => {
    const file = new DatabaseSync(path, { readOnly: true })
    const row = file.prepare('select count(*) as count from entries').get()
    file.close()
    return row?.count
  }

  test('deletes expired values and no others', async () => {
    const { path, clock } = useStore()
    const options = { secrets: createSecrets([oldSecret]), clock: () => clock.now, sweepEveryMs: 5 }
    const kv = openFileKv(path, options)
    onTestFinished(() => kv.close())
    await Promise.all(times(1_000, (i) => kv.set(`short-${i}`, i, 1)))
    await kv.set('long', 'kept', 60)
    await kv.set('for ever', 'kept')
    clock.now += 1_000
    await vi.waitFor(() => expect(countEntries(path)).toBe(2))
    expect([await kv.get('long'), await kv.get('for ever')]).toEqual(['kept', 'kept'])
  })

  test('yields to other work, however much there is to delete', async () => {
    const { path, clock } = useStore()
    const options = { secrets: createSecrets([oldSecret]), clock: () => clock.now, sweepEveryMs: 5 }
    const kv = openFileKv(path, options)
    onTestFinished(() => kv.close())
    await Promise.all(times(20_000, (i) => kv.set(`short-${i}`, i, 1)))
    clock.now += 1_000
    let turns = 0
    while (countEntries(path) !== 0) {
      turns += 1
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(turns, 'turns of the event loop until everything was deleted').toBeGreaterThan(50)
  })

  test('never deletes a value that was set again meanwhile', async () => {
    const { path, clock } = useStore()
    const options = { secrets: createSecrets([oldSecret]), clock: () => clock.now, sweepEveryMs: 1 }
    const [sweeper, other] = [openFileKv(path, options), openFileKv(path, { ...options, sweepEveryMs: 60_000 })]
    onTestFinished(() => Promise.all([sweeper.close(), other.close()]).then(() => undefined))
    for (let turn = 0; turn < 100; turn += 1) {
      await Promise.all(times(50, (i) => other.set(`key-${i}`, 'old', 1)))
      clock.now += 1_000
      await Promise.all(times(50, (i) => other.set(`key-${i}`, turn, 60)))
      await new Promise((resolve) => setImmediate(resolve))
      expect(await Promise.all(times(50, (i) => other.get(`key-${i}`)))).toEqual(times(50, () => turn))
    }
  })
})

describe('of 50 concurrent callers over two handles', () => {
  test('exactly one sets an absent value', async () => {
    const store = useStore()
    const handles = [store.open(), store.open()]
    const answers = await Promise.all(times(50, (i) => (handles[i % 2] as Kv).setIfAbsent('key', i, 60)))
    expect(answers.filter(Boolean)).toHaveLength(1)
    expect(await handles[0]?.get('key')).toBe(answers.indexOf(true))
  })

  test('exactly one takes a value', async () => {
    const store = useStore()
    const handles = [store.open(), store.open()]
    for (let turn = 0; turn < 10; turn += 1) {
      await handles[0]?.set('ticket', turn)
      const answers = await Promise.all(times(50, (i) => (handles[i % 2] as Kv).take('ticket')))
      expect(answers.filter((answer) => answer !== undefined)).toEqual([turn])
    }
  })
})

describe('a counter', () => {
  test('counts every call once, over two handles', async () => {
    const store = useStore()
    const [one, two] = [store.open(), store.open()]
    const values = await Promise.all(times(50, (index) => (index % 2 ? one : two).count('visits')))
    expect(values.sort((a, b) => a - b)).toEqual(times(50, (index) => index + 1))
    expect(await one.count('others')).toBe(1)
  })

  test('has a time to live that starts at the first count', async () => {
    const { open, raw } = useStore()
    const kv = open()
    await kv.count('visits', 60)
    const { expiresAt } = await raw.read('count:visits')
    expect(await kv.count('visits', 600)).toBe(2)
    expect(await raw.read('count:visits')).toEqual({ value: '2', expiresAt })
    await kv.count('for ever')
    expect(await raw.read('count:for ever')).toEqual({ value: '1', expiresAt: null })
  })

  test('restarts when its time to live is over', async () => {
    const { open, clock } = useStore()
    const kv = open()
    expect(await kv.count('visits', 0.3)).toBe(1)
    clock.now += 300
    await vi.waitFor(async () => expect(await kv.count('visits', 0.3)).toBe(1))
  })

  test('is unchanged when values are sealed again', async () => {
    const store = useStore()
    await store.open().count('visits')
    const renewed = store.open([newSecret, oldSecret])
    expect(await renewed.reseal()).toBe(0)
    expect(await renewed.count('visits')).toBe(2)
  })
})

describe('at rest', () => {
  test('a value is encrypted', async () => {
    const { open, raw, path } = useStore()
    const kv = open()
    await kv.set('session', { canary: 'c4n4ry-in-the-mine' }, 60)
    const bytes = redisUrl ? (await raw.read('session')).value : readFileSync(`${path}-wal`, 'latin1')
    expect(bytes).toContain('v1.')
    expect(bytes).not.toContain('c4n4ry')
  })

  test.each<[string, (kv: Kv) => Promise<unknown>]>([
    ['get', (kv) => kv.get('mine')],
    ['take', (kv) => kv.take('mine')],
  ])('a value that was moved to another key cannot be opened by %s', async (_, read) => {
    const { open, raw } = useStore()
    const kv = open()
    await kv.set('theirs', 'admin')
    await raw.write('mine', (await raw.read('theirs')).value)
    await expect(read(kv)).rejects.toThrow(UnreadableSecret)
    expect(await kv.get('theirs')).toBe('admin')
  })

  test('a value sealed with a secret that is not configured cannot be opened', async () => {
    const store = useStore()
    await store.open([oldSecret]).set('key', 1)
    await expect(store.open([newSecret]).get('key')).rejects.toThrow(UnreadableSecret)
  })
})

describe('after a new secret is added', () => {
  const count = 300
  const fill = async (kv: Kv) => Promise.all(times(count, (i) => kv.set(`key-${i}`, { i })))
  const readAll = async (kv: Kv) => Promise.all(times(count, (i) => kv.get(`key-${i}`)))
  const everything = times(count, (i) => ({ i }))

  test('all values are readable before, during and after they are sealed again', async () => {
    const store = useStore()
    await fill(store.open([oldSecret]))
    const both = store.open([newSecret, oldSecret])
    expect(await readAll(both)).toEqual(everything)
    const resealing = both.reseal()
    expect(await readAll(both)).toEqual(everything)
    expect(await resealing).toBe(count)
    expect(await readAll(both)).toEqual(everything)
    expect(await readAll(store.open([newSecret]))).toEqual(everything)
    expect(await both.reseal(), 'a second run').toBe(0)
  })

  test('an interrupted run leaves all values readable and can be repeated', async () => {
    const store = useStore()
    await fill(store.open([oldSecret]))
    expect(await resealAndDie(store, 100)).toBe('SIGKILL')
    const both = store.open([newSecret, oldSecret])
    expect(await readAll(both)).toEqual(everything)
    expect(await both.reseal()).toBe(count - 100)
    expect(await readAll(store.open([newSecret]))).toEqual(everything)
  })

  test.runIf(redisUrl).each(['in*lay', 'in?lay', 'in[l]ay', 'in\\lay'])(
    'values under a prefix like %s are sealed again too',
    async (odd) => {
      const store = useStore()
      const at = { path: '', prefix: odd }
      await store.open([oldSecret], at).set('key', 1)
      expect(await store.open([newSecret, oldSecret], at).reseal()).toBe(1)
      expect(await store.open([newSecret], at).get('key')).toBe(1)
    },
  )

  test('a value keeps its expiry', async () => {
    const { open, raw } = useStore()
    const before = open([oldSecret])
    await before.set('short', 1, 60)
    await before.set('for ever', 1)
    const [short, forEver] = [await raw.read('short'), await raw.read('for ever')]
    await open([newSecret, oldSecret]).reseal()
    expect(await raw.read('short')).toEqual({
      value: expect.not.stringMatching(short.value),
      expiresAt: short.expiresAt,
    })
    expect(short.expiresAt).toBeGreaterThan(0)
    expect(await raw.read('for ever')).toEqual({ value: expect.not.stringMatching(forEver.value), expiresAt: null })
  })

  test('an expired value does not come back', async () => {
    const { open, clock } = useStore()
    await open([oldSecret]).set('key', 1, 0.05)
    clock.now += 50
    const both = open([newSecret, oldSecret])
    await vi.waitFor(async () => expect(await both.get('key')).toBeUndefined())
    expect(await both.reseal()).toBe(0)
    expect(await both.get('key')).toBeUndefined()
  })

  test.each<[string, (kv: Kv) => Promise<unknown>, unknown]>([
    ['changed', (kv) => kv.set('key', 'newer'), 'newer'],
    ['taken', (kv) => kv.take('key'), undefined],
  ])('a value that is %s while it is sealed again keeps that change', async (_, change, expected) => {
    const store = useStore()
    const other = store.open([newSecret, oldSecret])
    await store.open([oldSecret]).set('key', 'older')
    const secrets = createSecrets([newSecret, oldSecret])
    let changed: Promise<unknown> | undefined
    const both = store.open({
      ...secrets,
      seal(plaintext, place) {
        // Runs between the read and the write.
        changed = change(other)
        return secrets.seal(plaintext, place)
      },
    })
    await both.reseal()
    await changed
    expect(changed).toBeDefined()
    expect(await other.get('key')).toEqual(expected)
  })
})

/** A process that seals a number of values again and is killed before the next one. */
async function resealAndDie({ path, prefix }: { path: string; prefix: string }, after: number): Promise<string | null> {
  const at = redisUrl
    ? `openRedisKv(${JSON.stringify(redisUrl)}, '${prefix}', options)`
    : `openFileKv('${path}', options)`
  const script = `
    import { createSecrets } from ${JSON.stringify(import.meta.resolve('../lib/secrets.ts'))}
    import { openFileKv } from ${JSON.stringify(import.meta.resolve('./kv.ts'))}
    import { openRedisKv } from ${JSON.stringify(import.meta.resolve('./redis.ts'))}
    const secrets = createSecrets(['${newSecret}', '${oldSecret}'])
    let left = ${after}
    const seal = (...args) => {
      if (left === 0) process.kill(process.pid, 'SIGKILL')
      left -= 1
      return secrets.seal(...args)
    }
    const options = { secrets: { ...secrets, seal }, clock: Date.now }
    await ${at}.reseal()`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: 'inherit' })
  const [, signal] = await once(child, 'exit')
  return signal
}

test.skipIf(redisUrl)('a full disk fails writes, and neither reads nor the process', async () => {
  const { path } = useStore()
  const script = `
    import { createSecrets } from ${JSON.stringify(import.meta.resolve('../lib/secrets.ts'))}
    import { openFileKv } from ${JSON.stringify(import.meta.resolve('./kv.ts'))}
    const kv = openFileKv('${path}', { secrets: createSecrets(['${oldSecret}']), clock: Date.now, sweepEveryMs: 1 })
    await kv.set('early', 'kept')
    await kv.set('short', 'gone', 0.001)
    const large = 'x'.repeat(10_000)
    const outcomes = await Promise.allSettled(Array.from({ length: 500 }, (_, i) => kv.set('key-' + i, large)))
    outcomes.push(...(await Promise.allSettled([kv.setIfAbsent('new', large)])))
    const refusals = new Set(outcomes.flatMap(({ reason }) => reason ? [reason.envelope?.code ?? String(reason)] : []))
    console.log(JSON.stringify({ refusals: [...refusals], early: await kv.get('early'), first: (await kv.get('key-0')).length }))`
  // A file size limit fails like a full disk. Its signal is ignored, because it would end the process.
  const limited = `trap '' XFSZ; ulimit -f 2000; exec "$0" --input-type=module --eval "$1"`
  const child = spawn('sh', ['-c', limited, process.execPath, script], { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  const [code] = await once(child, 'close')
  expect({ code, ...JSON.parse(output || '{}') }).toEqual({
    code: 0,
    refusals: ['SERVICE_UNAVAILABLE'],
    early: 'kept',
    first: 10_000,
  })
})

describe.runIf(redisUrl)('a Redis that stops responding', () => {
  /** A store whose Redis can fall silent. */
  async function openBehindProxy(answerWithinMs: number) {
    const { hostname, port, pathname, protocol } = new URL(redisUrl as string)
    const proxy = { isSilent: false }
    const between = createServer((socket) => {
      const redis = protocol === 'unix:' ? connect(pathname) : connect(Number(port), hostname)
      socket.on('data', (chunk) => redis.write(chunk)).on('close', () => redis.destroy())
      redis.on('data', (chunk) => proxy.isSilent || socket.write(chunk)).on('close', () => socket.destroy())
      for (const end of [socket, redis]) end.on('error', () => undefined)
    }).listen(0)
    await once(between, 'listening')
    const options = { secrets: createSecrets([oldSecret]), clock: Date.now, answerWithinMs }
    const kv = openRedisKv(`redis://127.0.0.1:${(between.address() as AddressInfo).port}`, newId(), options)
    onTestFinished(async () => {
      await kv.close()
      between.close()
    })
    await vi.waitFor(() => kv.set('a', 1))
    return { kv, proxy }
  }

  test('fails commands soon, and is used again when it responds', async () => {
    const { kv, proxy } = await openBehindProxy(100)
    const ask = () => Promise.allSettled([kv.set('a', 2), kv.get('a'), kv.setIfAbsent('b', 1)])
    proxy.isSilent = true
    const explain = (outcomes: PromiseSettledResult<unknown>[]) =>
      outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.envelope?.status : outcome.status))
    const sent = explain(await ask())
    const sentLater = explain(await ask())
    expect([sent, sentLater]).toEqual([
      [503, 503, 503],
      [503, 503, 503],
    ])
    proxy.isSilent = false
    await vi.waitFor(async () => expect([1, 2]).toContain(await kv.get('a')))
  })

  test('is waited for once by a request that needs several commands', async () => {
    const { kv, proxy } = await openBehindProxy(3_000)
    proxy.isSilent = true
    const away = { envelope: { status: 503 } }
    const started = performance.now()
    for (const key of ['a', 'b', 'c', 'd']) await expect(kv.get(key)).rejects.toMatchObject(away)
    expect(performance.now() - started).toBeLessThan(6_000)
    proxy.isSilent = false
    await vi.waitFor(async () => expect(await kv.get('a')).toBe(1))
  })
})
