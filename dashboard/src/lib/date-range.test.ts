import { expect, test } from 'vitest'
import { daysOf, rangeBefore, readRange } from './date-range.ts'

const now = Date.parse('2026-03-01T23:30:00Z')

test.each([
  ['7', '2026-02-23', '2026-03-01'],
  ['30', '2026-01-31', '2026-03-01'],
  ['1', '2026-03-01', '2026-03-01'],
  ['365', '2025-03-02', '2026-03-01'],
  ['9999', '2025-03-02', '2026-03-01'],
  ['2026-01-01_2026-01-31', '2026-01-01', '2026-01-31'],
  ['', '2026-01-31', '2026-03-01'],
  ['<script>', '2026-01-31', '2026-03-01'],
])('reads %j', (text, start_date, end_date) => {
  expect(readRange(text, now)).toEqual({ start_date, end_date })
})

test('has every day, also across a change of clocks and a leap day', () => {
  const days = daysOf({ start_date: '2028-02-27', end_date: '2028-03-27' })
  expect([days.length, days[2], days.at(-1)]).toEqual([30, '2028-02-29', '2028-03-27'])
})

test.each([
  ['2026-02-01', '2026-02-28', '2026-01-04', '2026-01-31'],
  ['2026-03-01', '2026-03-01', '2026-02-28', '2026-02-28'],
])('before %s to %s comes a period of the same length', (start_date, end_date, start, end) => {
  expect(rangeBefore({ start_date, end_date })).toEqual({ start_date: start, end_date: end })
})

test.each([
  ['2026-02-02', '2026-02-01'],
  ['not a day', '2026-02-01'],
])('a period from %s to %s has no days', (start_date, end_date) => {
  expect(daysOf({ start_date, end_date })).toEqual([])
})
