import fc from 'fast-check'
import { expect, test } from 'vitest'
import { nameProblem } from '../../kernel/lib/names.ts'
import { shortenTitle } from './title.ts'

const words = (count: number) => Array.from({ length: count }, (_, n) => `word${n}`).join(' ')

test.each([
  ['Where is my order?', 'Where is my order?'],
  ['  Where\n\n is\tmy\r\norder?  ', 'Where is my order?'],
  ['x'.repeat(80), 'x'.repeat(80)],
  ['x'.repeat(81), `${'x'.repeat(79)}…`],
  [words(20), 'word0 word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11…'],
  [`${'x'.repeat(70)} ${'y'.repeat(20)}`, `${'x'.repeat(70)}…`],
  ['注文した商品はいつ届きますか。'.repeat(10), expect.stringMatching(/^注文した商品は.{60,72}…$/)],
  [`${'👨‍👩‍👧'.repeat(30)}`, expect.stringMatching(/^(👨‍👩‍👧)+…$/u)],
  ['Hide\u202e this\u0000', 'Hide this'],
  ['\u200b\n ', null],
  ['', null],
])('%j becomes %j', (text, title) => {
  expect(shortenTitle(text)).toEqual(title)
})

test('a title is one line of at most 80 characters without invisible ones, whatever the message is', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 400 }), (text) => {
      const title = shortenTitle(text)
      if (title === null) return
      expect(title.length).toBeLessThanOrEqual(80)
      expect(nameProblem(title)).toBeUndefined()
    }),
  )
})

test('a very long message is shortened quickly', () => {
  expect(shortenTitle('word '.repeat(1_000_000))?.length).toBeLessThanOrEqual(80)
})
