export class InvalidJson extends Error {
  override readonly name = 'InvalidJson'
}

const forbiddenKeys = new Set(['__proto__', 'constructor', 'prototype'])

/** Maximum number of keys in one object. */
const maxKeys = 1_000

/**
 * `JSON.parse` for untrusted text. Also rejects text that parsers interpret differently, such as duplicate keys. It is
 * checked before it's parsed, because V8 takes half a second for an object with 74,000 numeric keys, which it keeps sorted.
 */
export function parseJson(text: string, { maxDepth = 64 }: { maxDepth?: number } = {}): unknown {
  checkStructure(text, maxDepth)
  return parseSyntax(text)
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
const openObject = 0x7b
const closeObject = 0x7d
const openArray = 0x5b
const closeArray = 0x5d

/** Throws if the text must be rejected. Malformed text is left for the parser to report. */
function checkStructure(text: string, maxDepth: number): void {
  const stack: (Set<string> | null)[] = []
  let keys: Set<string> | null = null
  let expectsKey = false
  let escapeAt = text.indexOf('\\')

  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === quote) {
      let end = text.indexOf('"', index + 1)
      if (escapeAt !== -1 && escapeAt < index) escapeAt = text.indexOf('\\', index)
      const hasEscapes = escapeAt !== -1 && escapeAt < end
      if (hasEscapes) end = findEnd(text, end)
      if (end === -1) return
      const value = hasEscapes ? readEscaped(text.slice(index, end + 1)) : expectsKey ? text.slice(index + 1, end) : ''
      if (value === undefined) return
      if (expectsKey && keys) addKey(keys, value)
      expectsKey = false
      index = end
    } else if (code === comma) {
      expectsKey = keys !== null
    } else if (code === openObject || code === openArray) {
      if (stack.length === maxDepth) throw new InvalidJson(`Nested deeper than ${maxDepth} levels`)
      stack.push(keys)
      keys = code === openObject ? new Set() : null
      expectsKey = code === openObject
    } else if (code === closeObject || code === closeArray) {
      keys = stack.pop() ?? null
    }
  }
}

/**
 * The value of a JSON string with escapes, or undefined if it's malformed. PostgreSQL can store neither NUL nor lone
 * surrogates, and only escapes can produce them.
 */
function readEscaped(literal: string): string | undefined {
  let value: string
  try {
    value = JSON.parse(literal)
  } catch {
    return undefined
  }
  if (value.includes('\0')) throw new InvalidJson('Text must not contain NUL')
  if (!value.isWellFormed()) throw new InvalidJson('Text must not contain half of a surrogate pair')
  return value
}

/** The closing quote of a string with escapes, from its first quote on, or -1 if it isn't closed. */
function findEnd(text: string, quoteAt: number): number {
  let end = quoteAt
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end
}

function isEscaped(text: string, position: number): boolean {
  let backslashes = 0
  while (text.charCodeAt(position - backslashes - 1) === backslash) backslashes += 1
  return backslashes % 2 === 1
}

function addKey(keys: Set<string>, key: string) {
  if (forbiddenKeys.has(key)) throw new InvalidJson(`Forbidden key ${quoteKey(key)}`)
  if (keys.has(key)) throw new InvalidJson(`Duplicate key ${quoteKey(key)}`)
  if (keys.size === maxKeys) throw new InvalidJson(`An object has more than ${maxKeys} keys`)
  keys.add(key)
}

function quoteKey(key: string): string {
  return JSON.stringify(shortenKey(key))
}

/** Shortens a key for a message, because the sender may have chosen a long one. */
export const shortenKey = (key: string): string => (key.length > 64 ? `${key.slice(0, 63)}…` : key)
