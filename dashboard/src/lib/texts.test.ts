import { afterEach, describe, expect, test } from 'vitest'
import type { Translation } from '../catalogue.ts'
import { chooseLanguage } from './languages.ts'
import { texts, translateTexts } from './texts.ts'

afterEach(() => translateTexts({}))

test.each([
  ['the user chose before', ['de', 'en-US', 'de-DE'], 'de'],
  ['the browser prefers', [null, 'de-AT', 'en'], 'de'],
  ['the browser prefers, of those that there are', [null, 'fr-FR', 'de', 'en'], 'de'],
  ['is English if the others aren’t there', [null, 'fr', 'den', 'constructor'], 'en'],
])('the language is what %s', (_, wanted, expected) => {
  expect(chooseLanguage(wanted)).toBe(expected)
})

describe('texts', () => {
  const states = { open: 'Open', closed: 'Closed' }
  const english = { title: 'Shop', pieces: (count: number) => `${count} pieces`, states }

  test('are in the language that was loaded, and in English where it lacks them', () => {
    translateTexts({ shop: { pieces: (count: number) => `${count} Stück`, states: { open: 'Geöffnet' } } })
    const t = texts('shop', english)
    expect([t.title, t.pieces(2), texts('other', english).pieces(2)]).toEqual(['Shop', '2 Stück', '2 pieces'])
    expect(t.states).toEqual({ open: 'Geöffnet', closed: 'Closed' })
  })

  test('are in English without a translation', () => {
    expect(texts('shop', english)).toEqual(english)
  })
})

/** These lines only compile while each of them is an error. */
export const mistakes: Translation[] = [
  // @ts-expect-error: English has no such section.
  { shop: {} },
  // @ts-expect-error: English has no such text.
  { words: { bananas: 'Bananen' } },
  // @ts-expect-error: a number where English has a text.
  { words: { cancel: 7 } },
  // @ts-expect-error: another parameter than English has.
  { words: { selected: (count: Date) => `${count} ausgewählt` } },
  // @ts-expect-error: English has no such text in the record.
  { words: { stepStates: { bananas: 'Bananen' } } },
]
