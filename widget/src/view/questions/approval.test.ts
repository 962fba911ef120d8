import { describe, expect, test } from 'vitest'
import type { ToolEntryPart } from '../../chat/state.ts'
import { germanTexts } from '../german.ts'
import { addCatalogue, createTexts } from '../strings.ts'
import { explain } from './approval.tsx'

addCatalogue('de', germanTexts())

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
