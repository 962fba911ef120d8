import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const style = readFileSync(new URL('../../dashboard/src/style.css', import.meta.url), 'utf8')
const colors = new Map(
  [...style.matchAll(/--([\w-]+): light-dark\((#\w+), (#\w+)\)/g)].map(([, name = '', light = '', dark = '']) => [
    name,
    { light, dark },
  ]),
)

/** Relative luminance, as WCAG 2 defines it. */
function luminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((from) => {
    const share = Number.parseInt(color.slice(from, from + 2), 16) / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

function contrast(text: string, surface: string, theme: 'light' | 'dark'): number {
  const [one = 0, two = 0] = [text, surface].map((name) => luminance(colors.get(name)?.[theme] ?? ''))
  return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05)
}

const surfaces = ['bg', 'surface', 'sunken']
const pairs = [
  ...['text', 'muted', 'faint', 'accent', 'accent-hover', 'brass', 'danger'].flatMap((text) =>
    surfaces.map((surface) => [text, surface] as const),
  ),
  ...(['accent', 'brass', 'danger'] as const).flatMap((text) => [
    [text, `${text}-soft`] as const,
    ['text', `${text}-soft`] as const,
  ]),
  ['on-accent', 'accent'] as const,
  ['on-accent', 'accent-hover'] as const,
  ['on-danger', 'danger'] as const,
]

test.each(pairs)('%s on %s can be read in both themes', (text, surface) => {
  for (const theme of ['light', 'dark'] as const) {
    expect(contrast(text, surface, theme), theme).toBeGreaterThanOrEqual(4.5)
  }
})
