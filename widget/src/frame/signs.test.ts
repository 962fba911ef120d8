import { expect, test } from 'vitest'
import { describeSigns } from './signs.ts'

const nothing = { badge: '', marker: '' }
const seen = { waiting: 0, isShown: true, isInBackground: false, hasNews: false }

test.each([
  ['nothing for a visible question', { waiting: 1 }, nothing],
  [
    'a marker in the title while the tab is in the background',
    { waiting: 2, isInBackground: true },
    { marker: '● (2)' },
  ],
  [
    'badge and marker while the panel is closed',
    { waiting: 2, isShown: false, hasNews: true },
    { badge: '2', marker: '● (2)' },
  ],
  ['a dot for a tool that ran while the panel was closed', { isShown: false, hasNews: true }, { badge: '•' }],
  ['nothing if nothing happened', { isShown: false, isInBackground: true }, nothing],
])('the page shows %s', (_, sight, signs) => {
  expect(describeSigns({ ...seen, ...sight })).toEqual({ ...nothing, ...signs })
})
