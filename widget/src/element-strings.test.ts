import { expect, test } from 'vitest'
import { describeLauncher } from './element-strings.ts'
import { chooseStrings } from './look.ts'

test.each([
  ['English', 'en-GB', undefined, 'Open the agent'],
  ['German', 'de', undefined, 'Agent öffnen'],
  ['German in Austria', 'de-AT', undefined, 'Agent öffnen'],
  ['German, however it is written', 'DE', undefined, 'Agent öffnen'],
  ['English for a language that is similar in name only', 'den', undefined, 'Open the agent'],
  ['English for a page without a language', '', undefined, 'Open the agent'],
  ['the page’s own text in any language', 'fr', { openAgent: 'Ouvrir l’assistant' }, 'Ouvrir l’assistant'],
])('the launcher’s label is %s', (_, language, own, label) => {
  expect(chooseStrings(language, own)).toMatchObject({ openAgent: label, closeAgent: expect.any(String) })
})

test.each([
  ['nothing new', 'en', '', 'Open the agent'],
  ['news', 'en', '•', 'Open the agent: new activity'],
  ['waiting calls', 'en', '2', 'Open the agent: 2 waiting for approval'],
  ['waiting calls in German', 'de', '1', 'Agent öffnen: 1 zur Freigabe'],
])('the launcher’s label tells screen readers of %s', (_, language, badge, label) => {
  expect(describeLauncher(chooseStrings(language), { badge, marker: '' })).toBe(label)
})
