export class InvalidJson extends Error {
  override readonly name = 'InvalidJson'
}

const forbiddenKeys = new Set(['__proto__', 'constructor', 'prototype'])

/** Maximum number of keys in one object. */
const maxKeys = 1_000
/** Shorter text can't hold more than `maxKeys` keys. */
const shortestWithTooMany = maxKeys * '"":0,'.length

/** `JSON.parse` for untrusted text. Also rejects text that parsers interpret differently, such as duplicate keys. */
export function parseJson(text: string, { maxDepth = 64 }: { maxDepth?: number } = {}): unknown {
  if (text.length > shortestWithTooMany) requireBounds(text, maxDepth)
  const value = parseSyntax(text)
  if (text.includes('\\') || countColons(text) !== countKeys(value, maxDepth)) checkStructure(text, maxDepth)
  return value
}

/** Counts the colons outside of strings, one for each key in the text. The text must not contain escapes. */
function countColons(text: string): number {
  let count = 0
  let found = text.indexOf(':')
  let quoted = text.indexOf('"')
  while (found >= 0) {
    if (quoted < 0 || found < quoted) {
      count += 1
      found = text.indexOf(':', found + 1)
    } else {
      const end = text.indexOf('"', quoted + 1)
      if (found < end) found = text.indexOf(':', end)
      quoted = text.indexOf('"', end + 1)
    }
  }
  return count
}

/** Counts the keys of a parsed value: fewer than in the text if one was repeated, negative if it must be rejected. */
function countKeys(value: unknown, depthLeft: number): number {
  if (typeof value !== 'object' || value === null) return 0
  if (depthLeft === 0) return Number.NEGATIVE_INFINITY
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) count += countKeys(item, depthLeft - 1)
    return count
  }
  for (const key of Object.keys(value)) {
    if (forbiddenKeys.has(key)) return Number.NEGATIVE_INFINITY
    count += 1 + countKeys((value as Record<string, unknown>)[key], depthLeft - 1)
  }
  return count
}

function parseSyntax(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new InvalidJson(describeSyntaxError(text, (error as SyntaxError).message))
  }
}

/** V8's message may quote a lot of the text, so this keeps only its position or one character. */
function describeSyntaxError(text: string, message: string): string {
  if (message === 'Unexpected end of JSON input') return `Malformed JSON at position ${text.length}`
  const position = /at position (\d+) \(line \d+ column \d+\)$/.exec(message)?.[1]
  if (position !== undefined) return `Malformed JSON at position ${position}`
  const token = /^Unexpected token '(.)'/s.exec(message)?.[1]
  return token === undefined ? 'Malformed JSON' : `Malformed JSON, unexpected ${JSON.stringify(token)}`
}

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openObject = 0x7b
const closeObject = 0x7d
const openArray = 0x5b
const closeArray = 0x5d

/**
 * Checks the limits before parsing, because V8 takes half a second for an object with 74,000 numeric keys, which it
 * keeps sorted. Malformed text is left for the parser to report.
 */
function requireBounds(text: string, maxDepth: number): void {
  /** Number of keys so far in each open object or array, outermost first. */
  const keys: number[] = []
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === quote) {
      const end = findStringEnd(text, index)
      if (end === 0) return
      index = end - 1
    } else if (code === colon) {
      const count = (keys.pop() ?? 0) + 1
      if (count > maxKeys) throw new InvalidJson(`An object has more than ${maxKeys} keys`)
      keys.push(count)
    } else if (code === openObject || code === openArray) {
      if (keys.push(0) > maxDepth) throw tooDeep(maxDepth)
    } else if (code === closeObject || code === closeArray) {
      keys.pop()
    }
  }
}

const tooDeep = (maxDepth: number) => new InvalidJson(`Nested deeper than ${maxDepth} levels`)

/** Throws if the text must be rejected. The text is well-formed JSON, so a few characters reveal its structure. */
function checkStructure(text: string, maxDepth: number) {
  const stack: (Set<string> | null)[] = []
  let keys: Set<string> | null = null
  let expectsKey = false

  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === quote) {
      const end = findStringEnd(text, index)
      checkEscapes(text.slice(index, end))
      if (expectsKey && keys) addKey(keys, text.slice(index, end))
      expectsKey = false
      index = end - 1
    } else if (code === comma) {
      expectsKey = keys !== null
    } else if (code === openObject || code === openArray) {
      if (stack.length === maxDepth) throw tooDeep(maxDepth)
      stack.push(keys)
      keys = code === openObject ? new Set() : null
      expectsKey = code === openObject
    } else if (code === closeObject || code === closeArray) {
      keys = stack.pop() ?? null
    }
  }
}

/** PostgreSQL can store neither NUL nor lone surrogates, and only escapes can produce them. */
function checkEscapes(literal: string) {
  if (!literal.includes('\\u')) return
  const value: string = JSON.parse(literal)
  if (value.includes('\0')) throw new InvalidJson('Text must not contain NUL')
  if (!value.isWellFormed()) throw new InvalidJson('Text must not contain half of a surrogate pair')
}

/** The index after the closing quote of the string that starts at `start`, or 0 if the string isn't closed. */
function findStringEnd(text: string, start: number): number {
  let end = text.indexOf('"', start + 1)
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end + 1
}

function isEscaped(text: string, position: number): boolean {
  let backslashes = 0
  while (text.charCodeAt(position - backslashes - 1) === backslash) backslashes += 1
  return backslashes % 2 === 1
}

function addKey(keys: Set<string>, literal: string) {
  const key: string = literal.includes('\\') ? JSON.parse(literal) : literal.slice(1, -1)
  if (forbiddenKeys.has(key)) throw new InvalidJson(`Forbidden key ${quoteKey(key)}`)
  if (keys.has(key)) throw new InvalidJson(`Duplicate key ${quoteKey(key)}`)
  keys.add(key)
}

function quoteKey(key: string): string {
  return JSON.stringify(shortenKey(key))
}

/** Shortens a key for a message, because the sender may have chosen a long one. */
export const shortenKey = (key: string): string => (key.length > 64 ? `${key.slice(0, 63)}…` : key)
