import { isDeepStrictEqual } from 'node:util'

type Schema = Record<string, unknown>

/** A value, its schema, and where it is, such as `items.0.count`. */
interface Checked {
  value: unknown
  schema: Schema
  path: string
  depth: number
  budget: Budget
}

type Rule = (checked: Checked) => string | undefined

const maxDepth = 64
/** Maximum number of comparisons, because a page's schema can combine alternatives at every level. */
const mostChecks = 20_000
const longestText = 200

/**
 * Checks arguments against a JSON Schema that a page or server wrote, and describes the first problem. It interprets the
 * keywords that forms need, and ignores all others: nothing is compiled, and no pattern or reference is followed.
 */
export function findArgumentProblem(schema: Schema, args: Record<string, unknown>): string | undefined {
  try {
    return check({ value: args, schema, path: '', depth: 0, budget: new Budget() })
  } catch (error) {
    if (error instanceof TooComplex) return 'The tool’s definition is too complex to check the arguments against.'
    throw error
  }
}

class TooComplex extends Error {
  override name = 'TooComplex'
}

class Budget {
  #left = mostChecks

  spend(checks: number): void {
    this.#left -= checks
    if (this.#left < 0) throw new TooComplex()
  }
}

function check(checked: Checked): string | undefined {
  const { budget, depth } = checked
  if (depth > maxDepth) throw new TooComplex()
  budget.spend(rules.length)
  for (const rule of rules) {
    const problem = rule(checked)
    if (problem !== undefined) return problem
  }
  return undefined
}

/** Checks a part of the value, or the whole value against a part of its schema. */
function checkPart(checked: Checked, value: unknown, schema: unknown, step?: string): string | undefined {
  const path = step === undefined ? checked.path : checked.path === '' ? step : `${checked.path}.${step}`
  checked.budget.spend(1)
  if (schema === false) return `${nameOf({ path })} isn’t allowed.`
  return isRecord(schema) ? check({ ...checked, value, schema, path, depth: checked.depth + 1 }) : undefined
}

const rules: Rule[] = [
  checkType,
  checkConst,
  checkEnum,
  checkNumber,
  checkText,
  checkList,
  checkItems,
  checkRequired,
  checkProperties,
  checkAll,
  checkAny,
]

const types: Record<string, { name: string; has(value: unknown): boolean }> = {
  string: { name: 'text', has: (value) => typeof value === 'string' },
  number: { name: 'a number', has: (value) => typeof value === 'number' },
  integer: { name: 'a whole number', has: (value) => Number.isInteger(value) },
  boolean: { name: 'true or false', has: (value) => typeof value === 'boolean' },
  null: { name: 'null', has: (value) => value === null },
  array: { name: 'a list', has: Array.isArray },
  object: { name: 'an object', has: isRecord },
}

function checkType({ value, schema, path, budget }: Checked): string | undefined {
  const names = Array.isArray(schema.type) ? schema.type : [schema.type]
  budget.spend(names.length)
  const known = names.map((name) => (typeof name === 'string' && Object.hasOwn(types, name) ? types[name] : undefined))
  if (known.some((type) => !type || type.has(value))) return undefined
  return `${nameOf({ path })} must be ${known.map((type) => type?.name).join(' or ')}.`
}

function checkConst({ value, schema, path }: Checked): string | undefined {
  if (!Object.hasOwn(schema, 'const') || isDeepStrictEqual(value, schema.const)) return undefined
  return `${nameOf({ path })} must be ${show(schema.const)}.`
}

function checkEnum({ value, schema, path, budget }: Checked): string | undefined {
  const options = schema.enum
  if (!Array.isArray(options)) return undefined
  budget.spend(options.length)
  if (options.some((option) => isDeepStrictEqual(value, option))) return undefined
  return `${nameOf({ path })} must be one of ${cut(options.map(show).join(', '))}.`
}

function checkNumber({ value, schema, path }: Checked): string | undefined {
  if (typeof value !== 'number') return undefined
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema
  const must = (text: string, limit: number) => `${nameOf({ path })} must be ${text} ${limit}.`
  if (typeof minimum === 'number' && value < minimum) return must('at least', minimum)
  if (typeof maximum === 'number' && value > maximum) return must('at most', maximum)
  if (typeof exclusiveMinimum === 'number' && value <= exclusiveMinimum) return must('more than', exclusiveMinimum)
  if (typeof exclusiveMaximum === 'number' && value >= exclusiveMaximum) return must('less than', exclusiveMaximum)
  return undefined
}

function checkText({ value, schema, path, budget }: Checked): string | undefined {
  if (typeof value !== 'string') return undefined
  const { minLength, maxLength } = schema
  if (typeof minLength !== 'number' && typeof maxLength !== 'number') return undefined
  budget.spend(Math.ceil(value.length / 64))
  const length = lengthOf(value)
  if (typeof minLength === 'number' && length < minLength)
    return `${nameOf({ path })} must have at least ${count(minLength, 'character')}.`
  if (typeof maxLength === 'number' && length > maxLength)
    return `${nameOf({ path })} must have at most ${count(maxLength, 'character')}.`
  return undefined
}

function checkList({ value, schema, path }: Checked): string | undefined {
  if (!Array.isArray(value)) return undefined
  const { minItems, maxItems } = schema
  if (typeof minItems === 'number' && value.length < minItems)
    return `${nameOf({ path })} must have at least ${count(minItems, 'item')}.`
  if (typeof maxItems === 'number' && value.length > maxItems)
    return `${nameOf({ path })} must have at most ${count(maxItems, 'item')}.`
  return undefined
}

function checkItems(checked: Checked): string | undefined {
  const { value, schema } = checked
  // With `prefixItems`, `items` is only about the rest.
  if (!Array.isArray(value) || schema.prefixItems !== undefined) return undefined
  if (schema.items !== false && !isRecord(schema.items)) return undefined
  return firstProblem(value, (item, index) => checkPart(checked, item, schema.items, String(index)))
}

function checkRequired({ value, schema, path, budget }: Checked): string | undefined {
  if (!isRecord(value) || !Array.isArray(schema.required)) return undefined
  budget.spend(schema.required.length)
  const missing = schema.required.find((name) => typeof name === 'string' && !Object.hasOwn(value, name))
  return missing === undefined
    ? undefined
    : `${nameOf({ path: path === '' ? missing : `${path}.${missing}` })} is missing.`
}

function checkProperties(checked: Checked): string | undefined {
  const { value, schema, path } = checked
  if (!isRecord(value)) return undefined
  const known = isRecord(schema.properties) ? schema.properties : {}
  const isClosed = schema.additionalProperties === false && schema.patternProperties === undefined
  return firstProblem(Object.keys(value), (name) => {
    if (Object.hasOwn(known, name)) return checkPart(checked, value[name], known[name], name)
    if (!isClosed) return undefined
    return `${nameOf({ path: path === '' ? name : `${path}.${name}` })} isn’t an argument of this tool.`
  })
}

function checkAll(checked: Checked): string | undefined {
  const { value, schema } = checked
  return Array.isArray(schema.allOf) ? firstProblem(schema.allOf, (part) => checkPart(checked, value, part)) : undefined
}

/** Several alternatives of `oneOf` may match, because an ignored keyword may be what tells them apart. */
function checkAny(checked: Checked): string | undefined {
  const { value, schema, path } = checked
  return firstProblem([schema.anyOf, schema.oneOf], (options) => {
    if (!Array.isArray(options) || options.length === 0) return undefined
    let problem: string | undefined
    for (const option of options) {
      problem = checkPart(checked, value, option)
      if (problem === undefined) return undefined
    }
    return options.length === 1 ? problem : `${nameOf({ path })} doesn’t match any of the allowed forms.`
  })
}

function firstProblem<T>(values: readonly T[], find: (value: T, index: number) => string | undefined) {
  for (const [index, value] of values.entries()) {
    const problem = find(value, index)
    if (problem !== undefined) return problem
  }
  return undefined
}

const nameOf = ({ path }: Pick<Checked, 'path'>): string => (path === '' ? 'The value' : `“${cut(path)}”`)

const show = (value: unknown): string => cut(JSON.stringify(value) ?? 'nothing')

const cut = (text: string): string => (text.length > longestText ? `${text.slice(0, longestText)}…` : text)

const count = (number: number, noun: string): string => `${number} ${number === 1 ? noun : `${noun}s`}`

/** JSON Schema counts code points, of which a surrogate pair is one. */
function lengthOf(text: string): number {
  let length = 0
  for (const _ of text) length += 1
  return length
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
