/**
 * What a page says is untrusted, and it ends in front of people and models. Control characters and those that change
 * the direction of text can hide what it says; so can invisible ones that models read and people do not see.
 * Tabs and line breaks stay, and so do the joiners that some scripts need.
 */
const hidden = /[\p{Cc}\p{Bidi_Control}\u200B\u2028\u2029\u2060-\u2064\uFEFF\uFFF9-\uFFFB\u{E0000}-\u{E0FFF}]/gu
const isKept = (character: string) => character === '\n' || character === '\t'

export function cleanText(text: string, maxLength = Number.POSITIVE_INFINITY): string {
  const shown = text.replace(hidden, (character) => (isKept(character) ? character : '')).toWellFormed()
  return shown.length > maxLength ? `${shown.slice(0, maxLength - 1).toWellFormed()}…` : shown
}

/** For a title, an address, a reason: text in one line. */
export const cleanLine = (text: string, maxLength: number): string => cleanText(text.replace(/\s+/g, ' '), maxLength)

export const isClean = (text: string): boolean => cleanText(text) === text

const maxDepth = 64

/** Every text in a value, names of members too. A key that would change a prototype somewhere is left out. */
export function cleanJson(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return cleanText(value)
  if (!isObject(value)) return value
  if (depth === maxDepth) return '[nested too deeply]'
  if (Array.isArray(value)) return value.map((entry) => cleanJson(entry, depth + 1))
  return cleanRecord(value, depth)
}

export const cleanRecord = (value: object, depth = 0): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => name !== '__proto__')
      .map(([name, member]) => [cleanText(name), cleanJson(member, depth + 1)]),
  )

/** Looks without recursion: half a million levels fit into a message. */
export function isTooDeep(value: unknown): boolean {
  let level = [value].filter(isObject)
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === maxDepth) return true
    level = level.flatMap((entry) => Object.values(entry).filter(isObject))
  }
  return false
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
