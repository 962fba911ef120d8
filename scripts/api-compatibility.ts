/** A JSON Schema of the OpenAPI document, as far as it says which values are valid. */
interface Schema {
  $ref?: string
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  items?: Schema
  pattern?: string
  format?: string
  [keyword: string]: unknown
}

interface Content {
  content?: Record<string, { schema?: Schema }>
}

interface ApiOperation {
  'x-access'?: string
  parameters?: { name: string; in: string; required?: boolean; schema?: Schema }[]
  requestBody?: Content & { required?: boolean }
  responses?: Record<string, Content>
}

export interface ApiDocument {
  paths: Record<string, Record<string, ApiOperation>>
  components?: { schemas?: Record<string, Schema> }
}

/**
 * Lists what would break a client of an earlier API: a request that it may send is refused, or a response has what it
 * doesn't expect. Clients ignore properties that they don't know.
 */
export function listBreaks(before: ApiDocument, after: ApiDocument): string[] {
  const breaks: string[] = []
  const forRequests = new Comparison(after, before, { ignoresUnknown: false })
  const forResponses = new Comparison(before, after, { ignoresUnknown: true })
  for (const [path, operations] of Object.entries(before.paths)) {
    for (const [method, old] of Object.entries(operations)) {
      const name = `${method.toUpperCase()} ${path}`
      const now = after.paths[path]?.[method]
      if (!now) {
        breaks.push(`${name} is gone`)
        continue
      }
      const add = (found: string[]) => breaks.push(...found.map((text) => `${name}: ${text}`))
      if (now['x-access'] !== old['x-access']) add([`access was ${old['x-access']} and is ${now['x-access']}`])
      add(compareParameters(old, now, forRequests))
      add(compareBodies(old, now, forRequests))
      add(compareResponses(old, now, forResponses))
    }
  }
  return breaks
}

function compareParameters(old: ApiOperation, now: ApiOperation, comparison: Comparison): string[] {
  const key = (parameter: { name: string; in: string }) => `${parameter.in} parameter ${parameter.name}`
  const known = new Map((old.parameters ?? []).map((parameter) => [key(parameter), parameter]))
  const given = new Map((now.parameters ?? []).map((parameter) => [key(parameter), parameter]))
  const gone = [...known.keys()].filter((name) => !given.has(name)).map((name) => `${name} is gone`)
  const changed = [...given].flatMap(([name, parameter]) => {
    const earlier = known.get(name)
    if (parameter.required && !earlier?.required) return [`${name} is required now`]
    return earlier ? comparison.refuses(parameter.schema ?? {}, earlier.schema ?? {}, name) : []
  })
  return [...gone, ...changed]
}

function compareBodies(old: ApiOperation, now: ApiOperation, comparison: Comparison): string[] {
  if (now.requestBody?.required && !old.requestBody?.required) return ['a body is required now']
  return Object.entries(old.requestBody?.content ?? {}).flatMap(([type, { schema = {} }]) => {
    const taken = now.requestBody?.content?.[type]
    return taken ? comparison.refuses(taken.schema ?? {}, schema, 'body') : [`no longer takes ${type}`]
  })
}

function compareResponses(old: ApiOperation, now: ApiOperation, comparison: Comparison): string[] {
  return Object.entries(old.responses ?? {}).flatMap(([status, { content = {} }]) => {
    const response = now.responses?.[status]
    if (!response) return status.startsWith('2') ? [`no longer responds with ${status}`] : []
    return Object.entries(content).flatMap(([type, { schema = {} }]) => {
      const given = response.content?.[type]
      return given ? comparison.refuses(schema, given.schema ?? {}, status) : [`${status} is no longer ${type}`]
    })
  })
}

const lowest = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']
const highest = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties']

/** Compares schemas of a document whose reader expects something with those of one whose writer produces it. */
class Comparison {
  readonly #reader: ApiDocument
  readonly #writer: ApiDocument
  readonly #ignoresUnknown: boolean
  /** Pairs of references that are being compared, because schemas can contain themselves. */
  readonly #open = new Set<string>()

  constructor(reader: ApiDocument, writer: ApiDocument, { ignoresUnknown }: { ignoresUnknown: boolean }) {
    this.#reader = reader
    this.#writer = writer
    this.#ignoresUnknown = ignoresUnknown
  }

  /** Why the reader refuses values that the writer produces. */
  refuses(expected: Schema, produced: Schema, at: string): string[] {
    const pair = `${expected.$ref} ${produced.$ref}`
    if (expected.$ref && produced.$ref) {
      if (this.#open.has(pair)) return []
      this.#open.add(pair)
    }
    try {
      return this.#compare(resolve(this.#reader, expected), resolve(this.#writer, produced), at)
    } finally {
      this.#open.delete(pair)
    }
  }

  #compare(expected: Schema, produced: Schema, at: string): string[] {
    const variants = produced.anyOf ?? produced.oneOf
    if (variants) return variants.flatMap((variant) => this.refuses(expected, variant, at))
    const choices = expected.anyOf ?? expected.oneOf
    if (choices) {
      const found = choices.map((choice) => this.refuses(choice, produced, at))
      // The closest choice says best what differs.
      return found.sort((one, other) => one.length - other.length)[0] ?? []
    }
    if (expected.allOf) return expected.allOf.flatMap((part) => this.refuses(part, produced, at))
    return [
      ...compareValues(expected, produced, at),
      ...compareLimits(expected, produced, at),
      ...this.#compareProperties(expected, produced, at),
      ...(expected.items && produced.items ? this.refuses(expected.items, produced.items, `${at}[]`) : []),
    ]
  }

  #compareProperties(expected: Schema, produced: Schema, at: string): string[] {
    const required = (expected.required ?? []).filter((name) => !produced.required?.includes(name))
    const others = expected.additionalProperties
    const problems = required.map((name) =>
      this.#ignoresUnknown ? `${at}.${name} can be missing` : `${at}.${name} is required now`,
    )
    for (const [name, property] of Object.entries(produced.properties ?? {})) {
      const known = expected.properties?.[name]
      if (known) problems.push(...this.refuses(known, property, `${at}.${name}`))
      else if (this.#ignoresUnknown) continue
      else if (others === false) problems.push(`${at}.${name} is gone`)
      else if (typeof others === 'object') problems.push(...this.refuses(others, property, `${at}.${name}`))
    }
    if (this.#ignoresUnknown && produced.properties) {
      for (const name of Object.keys(expected.properties ?? {}))
        if (!produced.properties[name] && !required.includes(name)) problems.push(`${at}.${name} is gone`)
    }
    if (typeof others === 'object' && typeof produced.additionalProperties === 'object')
      problems.push(...this.refuses(others, produced.additionalProperties, `${at}.*`))
    return problems
  }
}

function compareValues(expected: Schema, produced: Schema, at: string): string[] {
  const values = valuesOf(expected)
  if (values) {
    const given = valuesOf(produced)
    if (!given) return [`${at} can be anything, where ${values.join(' or ')} is expected`]
    const unknown = given.filter((value) => !values.includes(value))
    return unknown.length > 0 ? [`${at} can be ${unknown.join(' or ')}, which isn't expected`] : []
  }
  const [types, given] = [typesOf(expected), typesOf(produced)]
  if (types.length === 0) return []
  const isKnown = (type: string) => types.includes(type) || (type === 'integer' && types.includes('number'))
  if (given.length > 0 && given.every(isKnown)) return []
  return [`${at} can be ${given.join(' or ') || 'anything'}, where ${types.join(' or ')} is expected`]
}

function compareLimits(expected: Schema, produced: Schema, at: string): string[] {
  const changed = (keyword: string, isStricter: (limit: number, given: number) => boolean) => {
    const [limit, given] = [expected[keyword], produced[keyword]]
    if (typeof limit !== 'number') return []
    return typeof given !== 'number' || isStricter(limit, given) ? [`${at} has ${keyword} ${limit}`] : []
  }
  const worded = ['pattern', 'format'].flatMap((keyword) =>
    expected[keyword] !== undefined && expected[keyword] !== produced[keyword] && !valuesOf(produced)
      ? [`${at} has ${keyword} ${expected[keyword]}`]
      : [],
  )
  return [
    ...lowest.flatMap((keyword) => changed(keyword, (limit, given) => limit > given)),
    ...highest.flatMap((keyword) => changed(keyword, (limit, given) => limit < given)),
    ...worded,
  ]
}

const valuesOf = (schema: Schema): unknown[] | undefined => (schema.const === undefined ? schema.enum : [schema.const])

const typesOf = ({ type }: Schema): string[] => (type === undefined ? [] : [type].flat())

function resolve(document: ApiDocument, schema: Schema): Schema {
  const name = schema.$ref?.replace('#/components/schemas/', '')
  return name ? resolve(document, document.components?.schemas?.[name] ?? {}) : schema
}
