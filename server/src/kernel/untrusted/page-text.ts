/**
 * Text from pages is untrusted and shown to users and models. Control, bidirectional and invisible characters can hide
 * content from users that models still read, so they're removed. Tabs, line breaks and joiners that some scripts need
 * are kept.
 */
const hidden = /[\p{Cc}\p{Bidi_Control}\u200B\u2028\u2029\u2060-\u2064\uFEFF\uFFF9-\uFFFB\u{E0000}-\u{E0FFF}]/gu
const isKept = (character: string) => character === '\n' || character === '\t'

export function cleanText(text: string, maxLength = Number.POSITIVE_INFINITY): string {
  const shown = text.replace(hidden, (character) => (isKept(character) ? character : '')).toWellFormed()
  return shown.length > maxLength ? `${shown.slice(0, maxLength - 1).toWellFormed()}…` : shown
}

/** For text that is kept as it is otherwise: PostgreSQL can't store NUL. */
export const replaceNul = (text: string): string => text.replaceAll('\0', '\ufffd')

/** Cleans text that is shown on one line, such as a title. */
export const cleanLine = (text: string, maxLength: number): string => cleanText(text.replace(/\s+/g, ' '), maxLength)

export const isClean = (text: string): boolean => cleanText(text) === text

const maxDepth = 64

/** Cleans all strings in a value, including keys, and drops `__proto__` keys. */
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

/** Not recursive, because a message can have half a million levels. */
export function isTooDeep(value: unknown): boolean {
  let level = [value].filter(isObject)
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === maxDepth) return true
    level = level.flatMap((entry) => Object.values(entry).filter(isObject))
  }
  return false
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
