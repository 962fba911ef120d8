import { expect, test, vi } from 'vitest'
import { isId, newId } from './ids.ts'

test('ids are ids, and each is another', () => {
  const ids = Array.from({ length: 10_000 }, newId)
  expect(ids.filter((id) => !isId(id))).toEqual([])
  expect(new Set(ids).size).toBe(ids.length)
})

test('an id that is made later sorts later', async () => {
  const ids: string[] = []
  for (let turn = 0; turn < 10; turn += 1) {
    ids.push(newId())
    const made = Date.now()
    await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(made), { interval: 1 })
  }
  expect(ids.toSorted()).toEqual(ids)
})

test.each([
  '',
  'x',
  'null',
  '018f4c3a-0000-7000-8000-00000000000',
  '018f4c3a-0000-7000-8000-0000000000000',
  '018F4C3A-0000-7000-8000-000000000000',
  '{018f4c3a-0000-7000-8000-000000000000}',
  '018f4c3a00007000800000000000000a',
  '018f4c3a-0000-7000-8000-00000000000g',
  ' 018f4c3a-0000-7000-8000-000000000000',
  '018f4c3a-0000-7000-8000-000000000000\n',
])('%j is no id', (text) => {
  expect(isId(text)).toBe(false)
})
