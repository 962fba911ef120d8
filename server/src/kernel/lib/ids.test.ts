import { expect, test } from 'vitest'
import { isId, newId } from './ids.ts'

test('new ids are valid and unique', () => {
  const ids = Array.from({ length: 10_000 }, newId)
  expect(ids.filter((id) => !isId(id))).toEqual([])
  expect(new Set(ids).size).toBe(ids.length)
})

test('ids sort by creation, however many are created', () => {
  const ids = Array.from({ length: 50_000 }, newId)
  expect(ids.toSorted()).toEqual(ids)
  expect(new Set(ids.map((id) => id[14])), 'version 7').toEqual(new Set(['7']))
})

test('an id contains its creation time', () => {
  const before = Date.now()
  const time = Number.parseInt(newId().replace('-', '').slice(0, 12), 16)
  expect(time).toBeGreaterThanOrEqual(before - 60_000)
  expect(time).toBeLessThanOrEqual(Date.now())
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
])('%j is not an id', (text) => {
  expect(isId(text)).toBe(false)
})
