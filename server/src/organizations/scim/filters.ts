import { type Attribute, findAttribute, type ResourceType } from './schemas.ts'
import { badRequest, quote, type ScimError, type ScimType } from './scim-error.ts'

/** Filters (RFC 7644, section 3.4.2.2) and the paths of patches (section 3.5.2), which can contain one. */

/** An attribute, or one of its sub-attributes. */
interface AttributeRef {
  /** The extension's schema; undefined for an attribute of the core schema. */
  extension?: string | undefined
  attribute: Attribute
  sub?: Attribute | undefined
}

type Value = string | number | boolean | null
const operators = ['eq', 'ne', 'co', 'sw', 'ew', 'gt', 'ge', 'lt', 'le'] as const
type Operator = (typeof operators)[number]

export type Filter =
  | { kind: 'and' | 'or'; parts: Filter[] }
  | { kind: 'not'; part: Filter }
  | { kind: 'present'; ref: AttributeRef }
  | { kind: 'compare'; ref: AttributeRef; operator: Operator; value: Value }
  /** One of the attribute's values matches. `emails[type eq "work"].value eq "x"` has both conditions in its filter. */
  | { kind: 'some'; ref: AttributeRef; filter: Filter }

export interface PatchPath extends AttributeRef {
  filter?: Filter | undefined
}

export const filterLimits = { length: 2_000, depth: 8, comparisons: 50 }

export const parseFilter = (type: ResourceType, text: string): Filter => {
  const parser = new Parser(text, type, 'invalidFilter')
  const filter = parser.readFilter()
  parser.requireEnd()
  return filter
}

/** `schema` alone is the whole extension. */
export const parsePath = (type: ResourceType, text: string): PatchPath | { schema: string } => {
  const { extension } = type
  if (extension && text.toLowerCase() === extension.schema.toLowerCase()) return { schema: extension.schema }
  const parser = new Parser(text, type, 'invalidPath')
  const path = parser.readPath()
  parser.requireEnd()
  return path
}

class Parser {
  readonly #text: string
  readonly #type: ResourceType
  readonly #scimType: ScimType
  #at = 0
  #depth = 0
  #comparisons = 0

  constructor(text: string, type: ResourceType, scimType: ScimType) {
    this.#text = text
    this.#type = type
    this.#scimType = scimType
    if (text.length > filterLimits.length) throw this.#refuse(`It’s longer than ${filterLimits.length} characters.`)
  }

  readFilter(within?: Attribute): Filter {
    this.#depth += 1
    if (this.#depth > filterLimits.depth) throw this.#refuse(`It’s nested deeper than ${filterLimits.depth} levels.`)
    const filter = this.#readJoined('or', () => this.#readJoined('and', () => this.#readTerm(within)))
    this.#depth -= 1
    return filter
  }

  #readJoined(kind: 'and' | 'or', read: () => Filter): Filter {
    const parts = [read()]
    while (this.#takeWord(kind)) parts.push(read())
    return parts.length === 1 ? (parts[0] as Filter) : { kind, parts }
  }

  #readTerm(within: Attribute | undefined): Filter {
    if (this.#takeWord('not')) {
      if (!this.#take('(')) throw this.#refuse('“not” needs parentheses.')
      return { kind: 'not', part: this.#readClosed(within) }
    }
    if (this.#take('(')) return this.#readClosed(within)
    this.#comparisons += 1
    if (this.#comparisons > filterLimits.comparisons) {
      throw this.#refuse(`It has more than ${filterLimits.comparisons} comparisons.`)
    }
    const ref = within ? { attribute: this.#readSub(within, this.#readName()) } : this.#readRef()
    if (!within && this.#take('[')) return this.#readSome(ref)
    return this.#readComparison(ref)
  }

  #readClosed(within: Attribute | undefined): Filter {
    const filter = this.readFilter(within)
    if (!this.#take(')')) throw this.#refuse('A closing parenthesis is missing.')
    return filter
  }

  #readSome(ref: AttributeRef): Filter {
    const filter = this.#readBracketed(ref)
    const sub = this.#readSubAfterBracket(ref.attribute)
    if (!sub) return { kind: 'some', ref, filter }
    return { kind: 'some', ref, filter: { kind: 'and', parts: [filter, this.#readComparison({ attribute: sub })] } }
  }

  #readBracketed({ attribute, sub }: AttributeRef): Filter {
    if (!attribute.isMultiple || sub)
      throw this.#refuse(`${quote(attribute.name)} isn’t a list, so it takes no brackets.`)
    const filter = this.readFilter(attribute)
    if (!this.#take(']')) throw this.#refuse('A closing bracket is missing.')
    return filter
  }

  #readSubAfterBracket(attribute: Attribute): Attribute | undefined {
    if (this.#text[this.#at] !== '.') return undefined
    this.#at += 1
    return this.#readSub(attribute, this.#readName())
  }

  #readComparison(ref: AttributeRef): Filter {
    const word = this.#readName().toLowerCase()
    if (word === 'pr') return { kind: 'present', ref }
    const operator = operators.find((known) => known === word)
    if (!operator) throw this.#refuse(`${quote(word)} isn’t an operator. Use ${operators.join(', ')} or pr.`)
    const compared = comparedAttribute(ref)
    if (!compared)
      throw this.#refuse(`${quote(ref.attribute.name)} has several parts. Name one, such as ${example(ref)}.`)
    return { kind: 'compare', ref, operator, value: this.#readValue(compared, operator) }
  }

  #readValue(attribute: Attribute, operator: Operator): Value {
    this.#skipSpace()
    const found = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true\b|false\b|null\b/iy
    found.lastIndex = this.#at
    const literal = found.exec(this.#text)?.[0]
    if (literal === undefined) throw this.#refuse(`A value is missing after “${operator}”. Text needs double quotes.`)
    this.#at += literal.length
    const value = this.#parseLiteral(literal)
    if (attribute.type === 'boolean' && value !== null) {
      const flag = readBoolean(value)
      if (flag === undefined || !['eq', 'ne'].includes(operator)) {
        throw this.#refuse(`${quote(attribute.name)} can only be compared with true and false, using eq or ne.`)
      }
      return flag
    }
    if (attribute.type === 'dateTime' && value !== null && !(typeof value === 'string' && Date.parse(value) > 0)) {
      throw this.#refuse(`${quote(attribute.name)} needs a time such as "2026-01-31T12:00:00Z".`)
    }
    return value
  }

  #parseLiteral(literal: string): Value {
    try {
      const value = JSON.parse(literal.startsWith('"') ? literal : literal.toLowerCase())
      if (typeof value === 'string' && (value.includes('\0') || !value.isWellFormed())) throw new SyntaxError()
      return value
    } catch {
      throw this.#refuse(`${quote(literal)} isn’t a valid value.`)
    }
  }

  readPath(): PatchPath {
    const ref = this.#readRef()
    if (!this.#take('[')) return ref
    const filter = this.#readBracketed(ref)
    return { ...ref, filter, sub: this.#readSubAfterBracket(ref.attribute) }
  }

  /** `userName`, `name.givenName`, or either after the URN of its schema. */
  #readRef(): AttributeRef {
    const name = this.#readName()
    const { schema, attributes, extension } = this.#type
    const core = withoutPrefix(name, schema)
    const extended = core === undefined && extension ? withoutPrefix(name, extension.schema) : undefined
    const [first = '', second, ...more] = (core ?? extended ?? name).split('.')
    const attribute = findAttribute(extended === undefined ? attributes : extension?.attributes, first)
    if (!attribute || more.length > 0) throw this.#refuse(`${quote(name)} isn’t an attribute of ${this.#type.name}.`)
    return {
      ...(extended !== undefined && { extension: extension?.schema }),
      attribute,
      ...(second !== undefined && { sub: this.#readSub(attribute, second) }),
    }
  }

  #readSub(attribute: Attribute, name: string): Attribute {
    const sub = findAttribute(attribute.subAttributes, name)
    if (!sub) throw this.#refuse(`${quote(name)} isn’t a part of ${quote(attribute.name)}.`)
    return sub
  }

  #readName(): string {
    this.#skipSpace()
    const found = /[A-Za-z$][\w.:$-]*/y
    found.lastIndex = this.#at
    const name = found.exec(this.#text)?.[0]
    if (name === undefined) throw this.#refuse(`A name is expected at position ${this.#at}.`)
    this.#at += name.length
    return name
  }

  #takeWord(word: string): boolean {
    this.#skipSpace()
    const found = this.#text.slice(this.#at, this.#at + word.length + 1).toLowerCase()
    if (!found.startsWith(word) || !/^$|[\s(]/.test(found.slice(word.length))) return false
    this.#at += word.length
    return true
  }

  #take(sign: string): boolean {
    this.#skipSpace()
    if (this.#text[this.#at] !== sign) return false
    this.#at += 1
    return true
  }

  #skipSpace(): void {
    while (this.#text[this.#at] === ' ') this.#at += 1
  }

  requireEnd(): void {
    this.#skipSpace()
    if (this.#at < this.#text.length) throw this.#refuse(`Position ${this.#at} isn’t understood.`)
  }

  #refuse(why: string): ScimError {
    const what = this.#scimType === 'invalidFilter' ? 'filter' : 'path'
    return badRequest(this.#scimType, `The ${what} ${quote(this.#text)} isn’t supported. ${why}`)
  }
}

const withoutPrefix = (name: string, schema: string): string | undefined =>
  name.toLowerCase().startsWith(`${schema.toLowerCase()}:`) ? name.slice(schema.length + 1) : undefined

const example = ({ attribute }: AttributeRef) => quote(`${attribute.name}.${attribute.subAttributes?.[0]?.name}`)

/** `emails eq "x"` compares the values. */
const comparedAttribute = ({ attribute, sub }: AttributeRef): Attribute | undefined =>
  sub ?? (attribute.type === 'complex' ? findAttribute(attribute.subAttributes, 'value') : attribute)

/** Entra sends booleans as text. */
export function readBoolean(value: unknown): boolean | undefined {
  if (typeof value === 'boolean') return value
  if (typeof value !== 'string') return undefined
  const text = value.toLowerCase()
  return text === 'true' ? true : text === 'false' ? false : undefined
}

type Fields = Record<string, unknown>

/** Whether a resource matches. Inside brackets, `resource` is one of the attribute's values. */
export function matches(filter: Filter, resource: Fields): boolean {
  switch (filter.kind) {
    case 'and':
      return filter.parts.every((part) => matches(part, resource))
    case 'or':
      return filter.parts.some((part) => matches(part, resource))
    case 'not':
      return !matches(filter.part, resource)
    case 'present':
      return valuesOf(filter.ref, resource).some(isPresent)
    case 'some':
      return listOf(holderOf(filter.ref, resource)[filter.ref.attribute.name]).some((value) =>
        matches(filter.filter, value as Fields),
      )
    case 'compare':
      return compareAll(filter, resource)
  }
}

const isPresent = (value: unknown): boolean =>
  value !== undefined && value !== null && value !== '' && !(Array.isArray(value) && value.length === 0)

const holderOf = ({ extension }: AttributeRef, resource: Fields): Fields =>
  extension === undefined ? resource : ((resource[extension] as Fields | undefined) ?? {})

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : value === undefined ? [] : [value])

function valuesOf(ref: AttributeRef, resource: Fields): unknown[] {
  const values = listOf(holderOf(ref, resource)[ref.attribute.name])
  const { sub } = ref
  return sub ? values.map((value) => (value as Fields)[sub.name]) : values
}

function compareAll({ ref, operator, value: wanted }: Filter & { kind: 'compare' }, resource: Fields): boolean {
  const compared = comparedAttribute(ref) as Attribute
  const isWhole = ref.sub === undefined && ref.attribute.type === 'complex'
  const found = valuesOf(isWhole ? { ...ref, sub: compared } : ref, resource).filter(isPresent)
  if (wanted === null) return operator === 'eq' ? found.length === 0 : operator === 'ne' && found.length > 0
  if (operator === 'ne') return !found.some((value) => compare(compared, 'eq', value, wanted))
  return found.some((value) => compare(compared, operator, value, wanted))
}

function compare({ type, isExact }: Attribute, operator: Operator, found: unknown, wanted: Value): boolean {
  if (type === 'boolean') return found === wanted
  const fold = (value: unknown) => (isExact ? String(value) : String(value).toLowerCase())
  const isTime = type === 'dateTime'
  const [one, other] = isTime ? [Date.parse(String(found)), Date.parse(String(wanted))] : [fold(found), fold(wanted)]
  switch (operator) {
    case 'eq':
      return one === other
    case 'ne':
      return one !== other
    case 'gt':
      return one > other
    case 'ge':
      return one >= other
    case 'lt':
      return one < other
    case 'le':
      return one <= other
    case 'co':
      return String(one).includes(String(other))
    case 'sw':
      return String(one).startsWith(String(other))
    case 'ew':
      return String(one).endsWith(String(other))
  }
}

/** Whether the filter asks about a core attribute. */
export function mentions(filter: Filter, name: string): boolean {
  if ('parts' in filter) return filter.parts.some((part) => mentions(part, name))
  if (filter.kind === 'not') return mentions(filter.part, name)
  return filter.ref.attribute.name === name && filter.ref.extension === undefined
}

/** The value that an attribute must have for the filter to match, to find candidates with an index. */
export function requiredValue(filter: Filter, name: string): string | undefined {
  if (filter.kind === 'and') {
    for (const part of filter.parts) {
      const found = requiredValue(part, name)
      if (found !== undefined) return found
    }
    return undefined
  }
  if (filter.kind !== 'compare' || filter.operator !== 'eq' || typeof filter.value !== 'string') return undefined
  return filter.ref.attribute.name === name && filter.ref.extension === undefined ? filter.value : undefined
}

/** The values that `type eq "work" and primary eq true` demands, for a new entry of a list. Undefined for other filters. */
export function demandedValues(filter: Filter): Fields | undefined {
  if (filter.kind === 'compare' && filter.operator === 'eq' && filter.value !== null) {
    return { [filter.ref.attribute.name]: filter.value }
  }
  if (filter.kind !== 'and') return undefined
  const all: Fields = {}
  for (const part of filter.parts) {
    const found = demandedValues(part)
    if (!found) return undefined
    Object.assign(all, found)
  }
  return all
}
