import { isMap, isScalar, isSeq, Lexer, type ParsedNode, parse, parseDocument, type Scalar as YamlScalar } from 'yaml'
import { type Failure, invalid } from '../lib/errors.ts'
import { nameProblem } from '../lib/names.ts'

export const contentLimit = 256 * 1024
const frontmatterLimit = 16 * 1024
const nestingLimit = 32
/** Marks and words of YAML, as its lexer counts them: what parsing takes time for. */
const partLimit = 4096

/** Scalars are text, as they are for other readers of skills. Those of metadata have the type that they are written as. */
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
  /** About how much of an agent's context the body takes: four bytes a token. */
  tokens: number
}

/** Reads a SKILL.md, or throws what the interface says about it. Warnings are about what is kept but not understood. */
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

/** The frontmatter with numbers and truth values, as YAML's core schema has them, of a text that was accepted above. */
export const typedFrontmatter = (content: string): Record<string, unknown> =>
  parse(splitDocument(content).frontmatter, { schema: 'core', uniqueKeys: false })

function checkContent(content: string): void {
  if (Buffer.byteLength(content) > contentLimit) throw contentTooLong()
  if (!isStorable(content)) throw refusal('content', 'content has NUL or half characters')
}

export const contentTooLong = () => refusal('content', 'content exceeds 256 KiB')

/** The database keeps neither NUL nor half of a surrogate pair. */
const isStorable = (text: string) => text.isWellFormed() && !text.includes('\0')

/** Delimiters may end in `\r\n`, and editors may have put a byte order mark before the first; the body stays as it is. */
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
  if (isLarge) throw refusal('content', 'frontmatter has too many parts')
  // The library's own check for duplicate keys compares each with each; `toFields` looks them up.
  const { contents, errors } = parseDocument(text, { schema: 'failsafe', uniqueKeys: false, prettyErrors: false })
  if (errors.length > 0) throw refusal('content', 'frontmatter is not valid YAML')
  const value = toValue(contents, nestingLimit, toText)
  if (value === '') return {}
  if (!isFields(value)) throw refusal('content', 'frontmatter must be an object')
  return value
}

/** Takes what is plain data and nothing else: no aliases, no tags, no merge keys. */
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
    if (Object.hasOwn(fields, key)) throw refusal('content', 'frontmatter has a key twice')
    const isMetadata = levelsLeft === nestingLimit && key === 'metadata'
    fields[key] = toValue(value, levelsLeft - 1, isMetadata ? toTyped : read)
  }
  return fields
}

function toText({ value }: YamlScalar): string {
  const text = String(value)
  if (!isStorable(text)) throw refusal('content', 'frontmatter has NUL or half characters')
  return text
}

const words = new Map<string, Scalar>([
  ...['true', 'True', 'TRUE'].map((word) => [word, true] as const),
  ...['false', 'False', 'FALSE'].map((word) => [word, false] as const),
  ...['null', 'Null', 'NULL', '~'].map((word) => [word, null] as const),
])

/** YAML's core schema, but a number that would be written differently stays text: the version `1.10` isn't `1.1`. */
function toTyped(scalar: YamlScalar): Scalar {
  const text = toText(scalar)
  if (scalar.type !== 'PLAIN') return text
  const number = Number(text)
  if (Number.isFinite(number) && String(number) === text) return number
  const word = words.get(text)
  return word === undefined ? text : word
}

const isFields = (value: Value): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)

/** A field without a value is a field left out. */
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

/** The interface's characters are code points, not UTF-16 units. */
const lengthOf = (text: string): number => [...text].length

/** The interface gives each problem its message, so it stands in the envelope too. */
const refusal = (field: Field | 'content', message: string): Failure => invalid(field, message, message)
