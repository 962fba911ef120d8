import fc from 'fast-check'
import { expect, test } from 'vitest'
import { roundUp } from './round-up.ts'

test.each([
  [1, 1],
  [3, 5],
  [17, 20],
  [21, 25],
  [250, 250],
  [251, 500],
  [9_400_000, 10_000_000],
])('a chart up to %d ends at %d', (value, top) => {
  expect(roundUp(value)).toBe(top)
})

test('every value fits, and fills at least two fifths of the chart', () => {
  fc.assert(
    fc.property(fc.double({ min: 0.001, max: 1e15, noNaN: true }), (value) => {
      const top = roundUp(value)
      expect(top).toBeGreaterThanOrEqual(value * (1 - 1e-9))
      expect(value / top).toBeGreaterThan(0.39)
    }),
  )
})
