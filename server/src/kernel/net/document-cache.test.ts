import { beforeEach, describe, expect, test } from 'vitest'
import { DocumentCache } from './document-cache.ts'

interface Document {
  version: number
}

let now = 0
let reads = 0
let isDown = false
const stale: unknown[] = []
const read = async (): Promise<Document> => {
  reads += 1
  if (isDown) throw new Error('down')
  return { version: reads }
}
const createCache = (isKept?: (value: Document) => boolean) =>
  new DocumentCache<Document>({
    clock: () => now,
    limit: 2,
    freshMs: 100,
    staleMs: 1_000,
    rereadMs: 50,
    retryMs: 20,
    ...(isKept && { isKept }),
    onStale: (key) => stale.push(key),
  })

beforeEach(() => {
  now = 0
  reads = 0
  isDown = false
  stale.length = 0
})

describe('a document', () => {
  test('is read once while it is fresh, and again afterwards', async () => {
    const cache = createCache()
    expect(await cache.get('a', read)).toEqual({ version: 1 })
    now = 99
    expect(await cache.get('a', read)).toEqual({ version: 1 })
    now = 100
    expect(await cache.get('a', read)).toEqual({ version: 2 })
  })

  test('is read once for concurrent callers', async () => {
    const cache = createCache()
    await Promise.all([cache.get('a', read), cache.get('a', read), cache.get('b', read)])
    expect(reads).toBe(2)
  })

  test('is used while it can’t be read again, until it’s too old', async () => {
    const cache = createCache()
    await cache.get('a', read)
    isDown = true
    now = 100
    expect(await cache.get('a', read)).toEqual({ version: 1 })
    expect(stale).toEqual(['a'])
    now = 119
    expect(await cache.get('a', read), 'without another attempt').toEqual({ version: 1 })
    expect(reads).toBe(2)
    now = 1_000
    await expect(cache.get('a', read)).rejects.toThrow('down')
  })

  test('is not cached if it may not be', async () => {
    const cache = createCache(() => false)
    await cache.get('a', read)
    expect(await cache.get('a', read)).toEqual({ version: 2 })
  })

  test('makes room for another one', async () => {
    const cache = createCache()
    for (const key of ['a', 'b', 'c', 'a']) await cache.get(key, read)
    expect(reads).toBe(4)
  })
})

test('a failed read is repeated after a pause', async () => {
  const cache = createCache()
  isDown = true
  await expect(cache.get('a', read)).rejects.toThrow('down')
  isDown = false
  now = 19
  await expect(cache.get('a', read)).rejects.toThrow('down')
  now = 20
  expect(await cache.get('a', read)).toEqual({ version: 2 })
})

describe('a newer document', () => {
  test('is read at most once in a while', async () => {
    const cache = createCache()
    const first = await cache.get('a', read)
    now = 49
    expect(await cache.newer('a', first, read)).toBe(first)
    now = 50
    const second = await cache.newer('a', first, read)
    expect(second).toEqual({ version: 2 })
    expect(await cache.newer('a', second, read)).toBe(second)
  })

  test('is the one that another caller has read', async () => {
    const cache = createCache()
    const first = await cache.get('a', read)
    now = 50
    const second = await cache.newer('a', first, read)
    expect(await cache.newer('a', first, read)).toBe(second)
    expect(reads).toBe(2)
  })
})
