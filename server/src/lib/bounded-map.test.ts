import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BoundedMap } from './bounded-map.ts'

const keysOf = (map: BoundedMap<string, number>, keys: string) => [...keys].filter((key) => map.get(key) !== undefined)

test('keeps what fits', () => {
  const map = new BoundedMap<string, number>(2)
  map.set('a', 1)
  map.set('b', 2)
  map.set('a', 3)
  expect([map.get('a'), map.get('b'), map.get('c'), map.size]).toEqual([3, 2, undefined, 2])
})

test.each<[string, (map: BoundedMap<string, number>) => void, string[]]>([
  ['the oldest', () => undefined, ['b', 'c', 'd']],
  ['not one that was read', (map) => map.get('a'), ['a', 'c', 'd']],
  ['not one that was written again', (map) => map.set('a', 9), ['a', 'c', 'd']],
  ['nothing when there is room', (map) => map.delete('b'), ['a', 'c', 'd']],
])('forgets %s when it is full', (_, use, expected) => {
  const map = new BoundedMap<string, number>(3)
  for (const key of 'abc') map.set(key, 1)
  use(map)
  map.set('d', 1)
  expect(keysOf(map, 'abcd')).toEqual(expected)
})

test('never grows beyond its limit, and always knows what was written last', () => {
  const entry = fc.tuple(fc.string({ maxLength: 2 }), fc.nat())
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), fc.array(entry), (limit, entries) => {
      const map = new BoundedMap<string, number>(limit)
      for (const [key, value] of entries) {
        map.set(key, value)
        expect(map.size).toBeLessThanOrEqual(limit)
        expect(map.get(key)).toBe(value)
      }
    }),
  )
})
