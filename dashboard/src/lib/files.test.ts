import { expect, test } from 'vitest'
import { toCsv } from './files.ts'

test.each([
  ['plain', 'plain'],
  ['a, b', '"a, b"'],
  ['say "hi"', '"say ""hi"""'],
  ['two\nlines', '"two\nlines"'],
  ['=1+1', "'=1+1"],
  ['@import', "'@import"],
  ['-2 is text', "'-2 is text"],
  [-2, '-2'],
  [null, ''],
  [['a'], '"[""a""]"'],
])('writes %j as a cell', (value, cell) => {
  expect(toCsv([{ first: 1, value }])).toBe(`first,value\r\n1,${cell}\r\n`)
})

test('an empty list is an empty table', () => {
  expect(toCsv([])).toBe('\r\n')
})
