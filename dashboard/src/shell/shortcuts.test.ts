import { expect, test } from 'vitest'
import { allPages } from '../pages/pages.ts'

test('each letter after G opens one page', () => {
  const letters = allPages.flatMap(({ letter }) => letter ?? [])
  expect(letters.filter((letter, index) => letters.indexOf(letter) !== index)).toEqual([])
  expect(letters).not.toContain('g')
})
