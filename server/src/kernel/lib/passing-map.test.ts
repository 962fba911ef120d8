import fc from 'fast-check'
import { expect, test } from 'vitest'
import { PassingMap } from './passing-map.ts'

const key = fc.oneof(fc.constantFrom('__proto__', 'constructor', 'toString', '0', '1', ''), fc.string())
const step = fc.oneof(
  fc.record({ kind: fc.constant('set' as const), key, value: fc.object() }),
  fc.record({ kind: fc.constant('delete' as const), key }),
  fc.record({ kind: fc.constant('clear' as const) }),
)

test('behaves like a Map', () => {
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const passing = new PassingMap<object>()
      const map = new Map<string, object>()
      for (const step of steps) {
        if (step.kind === 'set') {
          passing.set(step.key, step.value)
          map.set(step.key, step.value)
        } else if (step.kind === 'clear') {
          passing.clear()
          map.clear()
        } else expect(passing.delete(step.key)).toBe(map.delete(step.key))
        if ('key' in step) expect(passing.get(step.key)).toBe(map.get(step.key))
      }
      const byKey = ([a]: [string, object], [b]: [string, object]) => (a < b ? -1 : 1)
      expect([...passing].sort(byKey)).toEqual([...map].sort(byKey))
      expect(passing.size).toBe(map.size)
    }),
  )
})

test('iteration skips entries that are deleted or added meanwhile', () => {
  const passing = new PassingMap<object>()
  for (const key of ['a', 'b', 'c']) passing.set(key, {})
  const seen: string[] = []
  for (const [key] of passing) {
    seen.push(key)
    passing.delete('b')
    passing.set('d', {})
  }
  expect(seen).toEqual(['a', 'c'])
})
