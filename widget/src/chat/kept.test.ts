import { describe, expect, test } from 'vitest'
import { openStore } from '../kept/text-store.ts'
import { createVisitorSecret } from '../kept/visitor-secret.ts'
import { hadActiveRun, type Outgoing, openKept } from './kept.ts'

/** A browser's storage that can refuse texts. */
function createWebStorage(maxLength = Number.POSITIVE_INFINITY) {
  const texts = new Map<string, string>()
  return {
    get length() {
      return texts.size
    },
    key: (index: number) => [...texts.keys()][index] ?? null,
    getItem: (key: string) => texts.get(key) ?? null,
    setItem(key: string, text: string) {
      if (text.length > maxLength) throw new Error('QuotaExceededError')
      texts.set(key, text)
    },
    removeItem: (key: string) => void texts.delete(key),
  }
}
const openStorage = () => {
  const [session, local] = [createWebStorage(), createWebStorage()]
  return { tab: openStore(() => session, 'inlay:'), browser: openStore(() => local, 'inlay:') }
}
const message = (id: string, changes: Partial<Outgoing> = {}): Outgoing => ({
  id,
  threadId: 't',
  text: 'Hi',
  skill: null,
  createdAt: '2026-11-16T09:41:05.002Z',
  isEdit: false,
  isRefused: false,
  ...changes,
})

describe('a store', () => {
  test('keeps texts under its prefix only', () => {
    const web = createWebStorage()
    web.setItem('other', 'x')
    const store = openStore(() => web, 'inlay:')
    store.write('a', '1')
    expect([store.read('a'), store.keys(), web.getItem('inlay:a')]).toEqual(['1', ['a'], '1'])
    expect(openStore(() => web, 'inlay:').read('a')).toBe('1')
    store.remove('a')
    expect([store.read('a'), store.keys(), web.getItem('other')]).toEqual([undefined, [], 'x'])
  })

  test.each([
    [
      'refuses access',
      () => {
        throw new Error('SecurityError')
      },
    ],
    ['is full', () => createWebStorage(0)],
  ])('keeps texts in memory if the browser %s', (_, find) => {
    const store = openStore(find, 'inlay:')
    store.write('a', '1')
    expect([store.read('a'), store.keys()]).toEqual(['1', ['a']])
    store.remove('a')
    expect([store.read('a'), store.keys()]).toEqual([undefined, []])
  })
})

describe('a user’s values', () => {
  test('are the newest 20 drafts', () => {
    const storage = openStorage()
    const kept = openKept(storage, 'ann')
    for (let count = 0; count < 25; count += 1) kept.writeDraft(`t${count}`, `Draft ${count}`)
    kept.writeDraft('t5', 'Newer')
    kept.writeDraft('t24', '')
    expect(['t4', 't5', 't6', 't23', 't24'].map((id) => kept.readDraft(id))).toEqual([
      '',
      'Newer',
      'Draft 6',
      'Draft 23',
      '',
    ])
    expect(storage.browser.keys().filter((key) => key.startsWith('draft/')).length).toBe(19)
  })

  test('are at most 20 messages with 64 KiB, refused ones last', () => {
    const kept = openKept(openStorage(), 'ann')
    const many = Array.from({ length: 25 }, (_, index) => message(`${index}`, { isRefused: index === 24 || index < 5 }))
    kept.writeOutbox(many)
    expect(kept.readOutbox().map(({ id }) => id)).toEqual(many.slice(5).map(({ id }) => id))
    kept.writeOutbox(['a', 'b', 'c'].map((id) => message(id, { text: 'x'.repeat(30_000), isRefused: id === 'b' })))
    expect(kept.readOutbox().map(({ id }) => id)).toEqual(['a', 'c'])
  })

  test.each(['{', '7', '{"a":1}', '[7, null, {"id":"a"}]'])('of a former version are ignored: %s', (json) => {
    const storage = openStorage()
    storage.tab.write('outbox/ann', json)
    storage.browser.write('drafts/ann', json)
    const kept = openKept(storage, 'ann')
    expect(kept.readOutbox()).toEqual([])
    kept.writeDraft('t', 'Hi')
    expect(kept.readDraft('t')).toBe('Hi')
  })

  test('are removed when another user comes', () => {
    const storage = openStorage()
    const kept = openKept(storage, 'ann')
    kept.writeThread('t')
    kept.writeDraft('t', 'Hi')
    kept.writeOutbox([message('1')])
    kept.writeActiveRun('r')
    const secret = createVisitorSecret(storage.browser).read()
    expect(hadActiveRun(storage.tab)).toBe(true)
    expect(openKept(storage, 'ann').readThread()).toBe('t')
    openKept(storage, 'bob')
    expect([storage.tab.keys(), storage.browser.keys()]).toEqual([[], ['visitor-secret']])
    expect([hadActiveRun(storage.tab), createVisitorSecret(storage.browser).read()]).toEqual([false, secret])
  })
})

test('a visitor’s secret is random, stays the same, and can be replaced', () => {
  const { browser } = openStorage()
  const secret = createVisitorSecret(browser)
  const first = secret.read()
  expect(first).toMatch(/^[0-9a-f]{64}$/)
  expect(createVisitorSecret(browser).read()).toBe(first)
  secret.renew()
  expect(secret.read()).not.toBe(first)
  browser.write('visitor-secret', 'short')
  expect(secret.read()).toMatch(/^[0-9a-f]{64}$/)
})
