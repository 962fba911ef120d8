export class InvalidJson extends Error {
  override readonly name = 'InvalidJson'
}

const forbiddenKeys = new Set(['__proto__', 'constructor', 'prototype'])

/** `JSON.parse` for text from outside: it also refuses what two readers could understand differently. */
export function parseJson(text: string, { maxDepth = 64 }: { maxDepth?: number } = {}): unknown {
  const value = parseSyntax(text)
  checkStructure(text, maxDepth)
  return value
}

function parseSyntax(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new InvalidJson(describeSyntaxError(text, (error as SyntaxError).message))
  }
}

/** The engine's own message may quote much of the text, so only its position or one character is taken from it. */
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

/** One pass over text that is known to be well-formed, so that its structure follows from a few characters. */
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
      if (stack.length === maxDepth) throw new InvalidJson(`Nested deeper than ${maxDepth} levels`)
      stack.push(keys)
      keys = code === openObject ? new Set() : null
      expectsKey = code === openObject
    } else if (code === closeObject || code === closeArray) {
      keys = stack.pop() ?? null
    }
  }
}

/** PostgreSQL holds neither NUL nor half a character; only an escape can bring one. */
function checkEscapes(literal: string) {
  if (!literal.includes('\\u')) return
  const value: string = JSON.parse(literal)
  if (value.includes('\0')) throw new InvalidJson('Text must not contain NUL')
  if (!value.isWellFormed()) throw new InvalidJson('Text must not contain half of a surrogate pair')
}

/** The index after the closing quote of the string that starts at `start`. */
function findStringEnd(text: string, start: number): number {
  let index = start + 1
  for (let code = text.charCodeAt(index); code !== quote; code = text.charCodeAt(index)) {
    index += code === backslash ? 2 : 1
  }
  return index + 1
}

function addKey(keys: Set<string>, literal: string) {
  const key: string = literal.includes('\\') ? JSON.parse(literal) : literal.slice(1, -1)
  if (forbiddenKeys.has(key)) throw new InvalidJson(`Forbidden key ${quoteKey(key)}`)
  if (keys.has(key)) throw new InvalidJson(`Duplicate key ${quoteKey(key)}`)
  keys.add(key)
}

function quoteKey(key: string): string {
  return JSON.stringify(key.length > 64 ? `${key.slice(0, 63)}…` : key)
}
