import { describe, expect, test } from 'vitest'
import type { ToolEntryPart } from '../../chat/state.ts'
import { view } from '../../languages/de.ts'
import { addCatalogue, createTexts } from '../strings.ts'
import { explain, explainReason, findStanding } from './approval.tsx'

addCatalogue('de', view)

const describeCall = (part: Partial<ToolEntryPart>, language = 'en') =>
  explain({ name: 'search', source: 'crm', reasonData: {}, ...part } as ToolEntryPart, 'Penny', createTexts(language))

describe('a question says that the tool may change something', () => {
  test.each([
    ['page', 'en', 'Penny wants to use a tool on this page. It may change something here.'],
    ['tab', 'en', 'Penny wants to use a tool on another page of yours, crm. It may change something there.'],
    ['connector', 'en', 'Penny wants to use the tool search of the service crm as you. It may change something there.'],
    ['client', 'en', 'Penny wants to use the tool search. It may change something.'],
    ['page', 'de', 'Penny möchte ein Werkzeug auf dieser Seite nutzen. Es kann hier etwas ändern.'],
  ] as const)('in the place %s, in %s', (place, language, text) => {
    expect(describeCall({ place }, language)).toBe(text)
  })

  test.each([
    ['en', 'Penny wants to use a tool on this page.'],
    ['de', 'Penny möchte ein Werkzeug auf dieser Seite nutzen.'],
  ])('unless it only reads, in %s', (language, text) => {
    const reasonData = { code: 'TEXT_FROM_ELSEWHERE', may_change: false }
    expect(describeCall({ place: 'page', reasonData }, language)).toBe(text)
  })
})

const elsewhere = { code: 'TEXT_FROM_ELSEWHERE', from: 'https://a.test', more: 0, to: 'https://b.test' }
const partWith = (reasonData: object) => ({ name: 'search', title: null, source: 'crm', reasonData }) as ToolEntryPart

describe('a question about a call without input, in a conversation with text of another origin', () => {
  test.each([
    ['en', 0, 'text from https://a.test. Which tool the agent uses can tell https://b.test something'],
    ['en', 2, 'text from https://a.test and 2 more. Which tool the agent uses can tell https://b.test something'],
    ['de', 0, 'Text von https://a.test. Schon welches Werkzeug der Agent nutzt, kann https://b.test etwas'],
    ['de', 2, 'Text von https://a.test und 2 weiteren. Schon welches Werkzeug der Agent nutzt, kann https://b.test'],
  ])('says in %s that the choice of a tool can carry data, with %d more origins', (language, more, text) => {
    expect(explainReason(partWith({ ...elsewhere, more, tools: 1 }), createTexts(language))).toContain(text)
  })

  test.each([
    ['en', 16, 'All 16 tools of https://b.test that only read, without input, in this conversation', 'origin'],
    ['de', 16, 'Alle 16 Werkzeuge von https://b.test, die nur lesen, ohne Eingabe in dieser Unterhaltung', 'origin'],
    ['en', 1, 'Always without input, in this conversation', 'tool'],
    ['de', 1, 'Ohne Eingabe in dieser Unterhaltung immer', 'tool'],
  ])('offers in %s one answer for %d tools', (language, tools, label, scope) => {
    expect(findStanding(partWith({ ...elsewhere, tools }), createTexts(language))).toEqual({ label, scope })
  })

  test('offers no answer beyond the call if the organization wants a question each time', () => {
    expect(findStanding(partWith({ ...elsewhere, tools: 0 }), createTexts('en'))).toBeUndefined()
  })
})

test('a question about what the agent sends elsewhere offers no permission, because it would not cover the next call', () => {
  const texts = createTexts('en')
  expect(findStanding(partWith(elsewhere), texts)).toBeUndefined()
  expect(explainReason(partWith(elsewhere), texts)).toContain('Check what the agent sends to https://b.test.')
  expect(findStanding(partWith({ code: 'MAY_CHANGE' }), texts)).toEqual({
    label: 'Always in this conversation',
    scope: 'tool',
  })
})
