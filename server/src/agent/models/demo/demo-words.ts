export const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []

export const singularOf = (word: string): string =>
  word.length > 3 && word.endsWith('s') && !word.endsWith('ss') ? word.slice(0, -1) : word

const synonyms: Record<string, readonly string[]> = {
  get: ['display', 'fetch', 'list', 'read', 'see', 'show', 'view'],
  search: ['find', 'look'],
  add: ['create', 'put'],
  remove: ['delete'],
}
const meanings = new Map(Object.entries(synonyms).flatMap(([word, others]) => others.map((other) => [other, word])))

/** Treats singular and plural as the same, and verbs that tools use for the same thing. */
export function meaningOf(word: string): string {
  const singular = singularOf(word)
  return meanings.get(singular) ?? singular
}

const numbers = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten', 'eleven', 'twelve']

/** Numbers that are spelled out, except in "a box of twelve". */
export const spelledNumbersOf = (text: string): number[] => {
  const words = wordsOf(text)
  return words.flatMap((word, at) =>
    numbers.includes(word) && words[at - 1] !== 'of' ? numbers.indexOf(word) + 1 : [],
  )
}
