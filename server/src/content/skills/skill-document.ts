import { isMap, isScalar, isSeq, Lexer, type ParsedNode, parse, parseDocument, type Scalar as YamlScalar } from 'yaml'
import { type Failure, invalid } from '../../kernel/lib/errors.ts'
import { nameProblem } from '../../kernel/lib/names.ts'

export const contentLimit = 256 * 1024
const frontmatterLimit = 16 * 1024
const nestingLimit = 32
/** Maximum number of YAML tokens, which determine the parsing time. */
const partLimit = 4096

/** Scalars are strings, as in other skill parsers. Only scalars in metadata can be numbers, booleans or null. */
type Scalar = string | number | boolean | null
type Value = Scalar | Value[] | Fields
type Fields = { [key: string]: Value }

const knownFields = ['name', 'description', 'license', 'compatibility', 'allowed-tools', 'metadata'] as const
type Field = (typeof knownFields)[number]

export interface SkillDocument {
  name: string
  description: string
  body: string
  license: string | null
  compatibility: string | null
  allowed_tools: string | null
  metadata: Fields | null
  /** Estimated size of the body in an agent's context, at four bytes per token. */
  tokens: number
}

/** Parses a SKILL.md, or throws a validation error. Warnings list fields that are kept but not recognized. */
export function parseSkillDocument(content: string): { document: SkillDocument; warnings: string[] } {
  checkContent(content)
  const { frontmatter, body } = splitDocument(content)
  const fields = readFrontmatter(frontmatter)
  const unknown = Object.keys(fields).filter((key) => !knownFields.includes(key as Field))
  return {
    document: {
      name: readName(fields),
      description: readDescription(fields),
      body,
      license: readText(fields, 'license'),
      compatibility: readCompatibility(fields),
      allowed_tools: readText(fields, 'allowed-tools'),
      metadata: readMetadata(fields),
      tokens: Math.ceil(Buffer.byteLength(body) / 4),
    },
    warnings: unknown.map((key) => `unknown frontmatter field "${key}"`),
  }
}

/** The frontmatter of a valid SKILL.md, with scalars typed by YAML's core schema. */
export const typedFrontmatter = (content: string): Record<string, unknown> =>
  parse(splitDocument(content).frontmatter, { schema: 'core', uniqueKeys: false })

function checkContent(content: string): void {
  if (Buffer.byteLength(content) > contentLimit) throw contentTooLong()
  if (!isStorable(content)) throw refusal('content', 'content contains NUL or an unpaired surrogate')
}

export const contentTooLong = () => refusal('content', 'content exceeds 256 KiB')

/** PostgreSQL can store neither NUL nor an unpaired surrogate. */
const isStorable = (text: string) => text.isWellFormed() && !text.includes('\0')

/** Accepts delimiters that end in `\r\n`, and a byte order mark before the first. The body is returned unchanged. */
function splitDocument(content: string): { frontmatter: string; body: string } {
  const opening = /^\uFEFF?---\r?\n/.exec(content)?.[0].length
  if (opening === undefined) throw refusal('content', 'frontmatter is missing')
  const closing = /\n---\r?(?:\n|$)/g
  closing.lastIndex = opening - 1
  const found = closing.exec(content)
  if (!found) throw refusal('content', 'frontmatter has no closing ---')
  const frontmatter = content.slice(opening, found.index + 1)
  if (Buffer.byteLength(frontmatter) > frontmatterLimit) throw refusal('content', 'frontmatter exceeds 16 KiB')
  return { frontmatter, body: content.slice(closing.lastIndex) }
}

function readFrontmatter(text: string): Fields {
  const isLarge = !new Lexer().lex(text).drop(partLimit).next().done
  if (isLarge) throw refusal('content', 'frontmatter has too many YAML tokens')
  // The library's check for duplicate keys takes quadratic time, so `toValue` checks instead.
  const { contents, errors } = parseDocument(text, { schema: 'failsafe', uniqueKeys: false, prettyErrors: false })
  if (errors.length > 0) throw refusal('content', 'frontmatter is not valid YAML')
  const value = toValue(contents, nestingLimit, toText)
  if (value === '') return {}
  if (!isFields(value)) throw refusal('content', 'frontmatter must be an object')
  return value
}

/** Accepts only plain data: no aliases, tags, or merge keys. */
function toValue(node: ParsedNode | null, levelsLeft: number, read: (scalar: YamlScalar) => Scalar): Value {
  if (node === null) return ''
  if (levelsLeft === 0) throw refusal('content', `frontmatter is nested deeper than ${nestingLimit} levels`)
  if (node.tag !== undefined) throw refusal('content', 'frontmatter must not use tags')
  if (isScalar(node)) return read(node)
  if (isSeq(node)) return node.items.map((item) => toValue(item, levelsLeft - 1, read))
  if (!isMap(node)) throw refusal('content', 'frontmatter must not use aliases')
  const fields: Fields = {}
  for (const { key: keyNode, value } of node.items) {
    const key = toValue(keyNode, levelsLeft - 1, toText)
    if (typeof key !== 'string' || key === '__proto__') throw refusal('content', 'frontmatter has a forbidden key')
    if (key === '<<') throw refusal('content', 'frontmatter must not use merge keys')
    if (Object.hasOwn(fields, key)) throw refusal('content', 'frontmatter has a duplicate key')
    const isMetadata = levelsLeft === nestingLimit && key === 'metadata'
    fields[key] = toValue(value, levelsLeft - 1, isMetadata ? toTyped : read)
  }
  return fields
}

function toText({ value }: YamlScalar): string {
  const text = String(value)
  if (!isStorable(text)) throw refusal('content', 'frontmatter contains NUL or an unpaired surrogate')
  return text
}

const words = new Map<string, Scalar>([
  ...['true', 'True', 'TRUE'].map((word) => [word, true] as const),
  ...['false', 'False', 'FALSE'].map((word) => [word, false] as const),
  ...['null', 'Null', 'NULL', '~'].map((word) => [word, null] as const),
])

/** Like YAML's core schema, but a number that JSON would write differently stays text: `1.10` must not become `1.1`. */
function toTyped(scalar: YamlScalar): Scalar {
  const text = toText(scalar)
  if (scalar.type !== 'PLAIN') return text
  const number = Number(text)
  if (Number.isFinite(number) && String(number) === text) return number
  const word = words.get(text)
  return word === undefined ? text : word
}

const isFields = (value: Value): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Treats a field without a value as missing. */
function readText(fields: Fields, field: Field): string | null {
  const value = fields[field] ?? ''
  if (typeof value !== 'string') throw refusal(field, `${field} must be a string`)
  return value.trim() || null
}

const nameFormat = (() => {
  const start = '[\\p{Ll}\\p{Lo}\\p{Lm}\\p{N}]'
  const word = `${start}[\\p{Ll}\\p{Lo}\\p{Lm}\\p{N}\\p{Mn}\\p{Mc}]*`
  return new RegExp(`^${word}(?:-${word})*$`, 'v')
})()

function readName(fields: Fields): string {
  const name = readText(fields, 'name')?.normalize('NFKC')
  if (!name) throw refusal('name', 'name is required')
  if (name !== name.toLowerCase()) throw refusal('name', 'name must be lowercase')
  if (lengthOf(name) > 64) throw refusal('name', 'name exceeds 64 characters')
  if (!nameFormat.test(name) || nameProblem(name)) throw refusal('name', 'invalid name format')
  return name
}

function readDescription(fields: Fields): string {
  const description = readText(fields, 'description')
  if (!description) throw refusal('description', 'description is required')
  if (lengthOf(description) > 1024) throw refusal('description', 'description exceeds 1024 characters')
  return description
}

function readCompatibility(fields: Fields): string | null {
  const compatibility = readText(fields, 'compatibility')
  if (compatibility && lengthOf(compatibility) > 500) {
    throw refusal('compatibility', 'compatibility exceeds 500 characters')
  }
  return compatibility
}

function readMetadata(fields: Fields): Fields | null {
  const metadata = fields.metadata ?? ''
  if (metadata === '') return null
  if (!isFields(metadata)) throw refusal('metadata', 'metadata must be an object')
  return metadata
}

/** The API counts characters as code points, not UTF-16 units. */
const lengthOf = (text: string): number => [...text].length

/** The API defines a message for each problem, so the message is in the envelope as well as in `details`. */
const refusal = (field: Field | 'content', message: string): Failure => invalid(field, message, message)
