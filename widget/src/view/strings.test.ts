import { describe, expect, test } from 'vitest'
import { view } from '../languages/de.ts'
import { addCatalogue, createTexts } from './strings.ts'

addCatalogue('de', view)

describe('the panel’s texts', () => {
  test.each([
    ['en', 1, '1 tool on this page'],
    ['en', 1200, '1,200 tools on this page'],
    ['de', 1, '1 Werkzeug auf dieser Seite'],
    ['de-AT', 0, '0 Werkzeuge auf dieser Seite'],
    ['fr', 2, '2 tools on this page'],
    ['not a language', 2, '2 tools on this page'],
  ])('in %s count %i correctly', (language, count, expected) => {
    expect(createTexts(language).count('tools', count)).toBe(expected)
  })

  test('fill in values once, and keep braces that a value contains', () => {
    expect(createTexts('en').say('confirmDelete', { name: '{name}' })).toBe('Delete “{name}”? This can’t be undone.')
  })

  test.each([
    ['en', false],
    ['de', false],
    ['ar', true],
    ['he-IL', true],
    ['az-Arab', true],
    ['az', false],
    ['', false],
  ])('in %s: right to left is %s', (language, expected) => {
    expect(createTexts(language).isRightToLeft).toBe(expected)
  })

  test('format durations and numbers in their language', () => {
    expect([createTexts('de').duration(1234), createTexts('en').duration(12_345)]).toEqual(['1,2 s', '12 s'])
  })
})

describe('the page’s own texts', () => {
  const french = {
    send: 'Envoyer',
    tools_one: '{count} outil',
    tools_many: '{count} d’outils',
    tools_other: '{count} outils',
  }

  test('replace those of the language by key, with all plural forms of their language', () => {
    const texts = createTexts('fr', french)
    expect(texts.language).toBe('fr')
    expect(texts.say('send')).toBe('Envoyer')
    expect([0, 2, 1_000_000].map((count) => texts.count('tools', count))).toEqual([
      '0 outil',
      '2 outils',
      expect.stringMatching(/^1\s000\s000 d’outils$/),
    ])
    expect(texts.say('stop'), 'the others stay English').toBe('Stop')
  })

  test.each(['allowOnce', 'decline', 'question', 'askOnPage', 'alwaysInThread', 'covered'] as const)(
    'cannot replace the text “%s” of a question',
    (key) => {
      expect(createTexts('en', { [key]: 'Cancel' }).say(key)).toBe(createTexts('en').say(key))
    },
  )

  test('that are no texts, unknown, disguised or too long do no harm', () => {
    const given = { send: 7, __proto__: 'x', unknown: 'x', stop: 'Go\u202E on', retry: 'x'.repeat(1_000) }
    const { say } = createTexts('en', given)
    expect([say('send'), say('stop'), say('retry').length]).toEqual(['Send', 'Go on', 501])
  })
})
