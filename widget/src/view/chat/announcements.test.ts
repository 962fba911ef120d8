import { describe, expect, test } from 'vitest'
import { endOfPortion, readable } from './announcements.ts'
import { groupEntries, sectionGroups } from './entries.tsx'
import { findSkills, splitSkill } from './skill-menu.tsx'

describe('streamed text for screen readers', () => {
  const portion = (text: string, from: number, isEnded = false) => text.slice(from, endOfPortion(text, from, isEnded))

  test.each([
    ['no sentence is complete', 'Yes, we ha', 0, false, ''],
    ['a sentence is complete', 'Yes, we have. It is bl', 0, false, 'Yes, we have. '],
    ['several are complete', 'Yes. It is blue! It co', 0, false, 'Yes. It is blue! '],
    ['a price isn’t the end of one', 'It costs 9.00', 0, false, ''],
    ['a line ends', '# Products\n- In', 0, false, '# Products\n'],
    ['the rest follows', 'Yes. It is blue! It co', 5, false, 'It is blue! '],
    ['the text has ended', 'Yes. It is bl', 5, true, 'It is bl'],
    ['a language has no spaces', '有。蓝色', 0, false, '有。'],
  ])('comes in sentences: %s', (_, text, from, isEnded, expected) => {
    expect(portion(text, from, isEnded)).toBe(expected)
  })

  test('without any sentence comes in portions of at most 400 characters', () => {
    const text = 'word '.repeat(200)
    let from = 0
    const portions: number[] = []
    while (from < text.length) {
      const end = endOfPortion(text, from, true)
      portions.push(end - from)
      from = end
    }
    expect(Math.max(...portions)).toBeLessThanOrEqual(400)
    expect(portions.length).toBe(3)
  })

  test('has no marks of Markdown', () => {
    expect(readable('## **Ink**, `blue`: [see](https://x.example)\n\n| a | b |\n|---|---|')).toBe('Ink, blue: see a b')
  })
})

describe('the menu of skills', () => {
  const skills = [
    { name: 'gift-wrapping', description: 'Refunds the wrapping' },
    { name: 'refunds', description: 'Starts a refund' },
  ]
  test.each([
    ['/', ['gift-wrapping', 'refunds']],
    ['/ref', ['refunds', 'gift-wrapping']],
    ['/GIFT', ['gift-wrapping']],
    ['/nothing', []],
    ['/refunds please', []],
    ['a / b', []],
    ['', []],
  ])('finds for “%s”', (text, names) => {
    expect(findSkills(skills, text).map(({ name }) => name)).toEqual(names)
  })

  test.each([
    ['/refunds where is it?', { text: 'where is it?', skill: 'refunds' }],
    ['/unknown where is it?', { text: '/unknown where is it?', skill: undefined }],
    ['/refunds', { text: '/refunds', skill: undefined }],
  ])('understands “%s” without the menu', (text, expected) => {
    expect(splitSkill(skills, text)).toEqual(expected)
  })
})

describe('the groups of a long conversation', () => {
  const entries = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) => ({ id: `${from + index}` }))
  const ids = (groups: readonly { id: string }[][]) => groups.map((group) => [group[0]?.id, group.length])

  test('stay the same when entries are added at either end', () => {
    const starts = new Set<string>()
    expect(ids(groupEntries(entries(100, 120), starts))).toEqual([
      ['100', 16],
      ['116', 4],
    ])
    expect(ids(groupEntries(entries(90, 133), starts))).toEqual([
      ['90', 10],
      ['100', 16],
      ['116', 16],
      ['132', 1],
    ])
  })

  test('are in sections that only change at the ends of the conversation', () => {
    const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index)
    const sections = (from: number, to: number) =>
      sectionGroups(numbers(from, to), -from).map(([number, groups]) => [number, groups[0], groups.at(-1)])
    expect(sections(0, 20)).toEqual([
      [0, 0, 15],
      [1, 16, 19],
    ])
    expect(sections(-17, 33), 'earlier and later groups were added').toEqual([
      [-2, -17, -17],
      [-1, -16, -1],
      [0, 0, 15],
      [1, 16, 31],
      [2, 32, 32],
    ])
  })
})
