import { expect, onTestFinished, test, vi } from 'vitest'

test('each letter after G opens one page', async () => {
  onTestFinished(() => void vi.unstubAllGlobals())
  // Texts are in the browser's language.
  vi.stubGlobal('localStorage', { getItem: () => null })
  vi.stubGlobal('document', { documentElement: {} })
  const { allPages } = await import('../pages/pages.ts')
  const letters = allPages.flatMap(({ letter }) => letter ?? [])
  expect(letters.filter((letter, index) => letters.indexOf(letter) !== index)).toEqual([])
  expect(letters).not.toContain('g')
})
