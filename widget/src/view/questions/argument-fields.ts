import { exactJson } from '../../frame/plain-text.ts'
import type { StringKey, Values } from '../strings.ts'

type Schema = Record<string, unknown>
type Kind = 'string' | 'number' | 'integer' | 'boolean' | 'enum' | 'json'

/** One argument of a call, as a field of the form. */
export interface ArgumentField {
  name: string
  kind: Kind
  description: string
  isRequired: boolean
  /** The texts of an `enum`, which are JSON. */
  options: readonly string[]
  /** What the field shows at first; undefined if the argument is missing. */
  text: string | undefined
  schema: Schema
}

export type Checked = { value: unknown } | { isMissing: true } | { error: StringKey; values?: Values }

const mostFields = 40
const mostOptions = 100
/** Longer texts would be hard to read in a field. */
const longestFieldText = 10_000

/** The form for a call's arguments: those that the call has, and those that the schema requires. */
export function describeFields(schema: Schema | undefined, input: Record<string, unknown>): ArgumentField[] {
  const properties = isObject(schema?.properties) ? schema.properties : {}
  const required = new Set(Array.isArray(schema?.required) ? schema.required : [])
  const known = Object.keys(properties).filter((name) => Object.hasOwn(input, name) || required.has(name))
  const unknown = Object.keys(input).filter((name) => !Object.hasOwn(properties, name))
  return [...known, ...unknown].map((name) => {
    const given = Object.hasOwn(properties, name) ? properties[name] : undefined
    const rules = isObject(given) ? given : {}
    const value = Object.hasOwn(input, name) ? input[name] : undefined
    const kind = findKind(rules, value)
    return {
      name,
      kind,
      description: typeof rules.description === 'string' ? rules.description : '',
      isRequired: required.has(name),
      options: kind === 'enum' ? (rules.enum as unknown[]).map((option) => exactJson(option)) : [],
      text: value === undefined ? undefined : describeValue(kind, value),
      schema: rules,
    }
  })
}

/** Whether the form is readable. Otherwise the arguments are shown as JSON. */
export const isReadable = (fields: readonly ArgumentField[]): boolean =>
  fields.length <= mostFields && fields.every(({ text = '' }) => text.length <= longestFieldText)

/** A value that its field couldn't show exactly is edited as JSON. */
function findKind(rules: Schema, value: unknown): Kind {
  const options = rules.enum
  if (Array.isArray(options) && options.length > 0 && options.length <= mostOptions) {
    const isKnown = value === undefined || options.some((option) => exactJson(option) === exactJson(value))
    return isKnown ? 'enum' : 'json'
  }
  const type = rules.type ?? typeof value
  if (type === 'string') return value === undefined || isPlain(value) ? 'string' : 'json'
  if (type === 'number' || type === 'integer') return value === undefined || typeof value === 'number' ? type : 'json'
  if (type === 'boolean') return value === undefined || typeof value === 'boolean' ? 'boolean' : 'json'
  return 'json'
}

/** Whether a field shows every character of the text. */
const isPlain = (value: unknown) =>
  typeof value === 'string' && exactJson(value.replaceAll('\n', ' ')) === JSON.stringify(value.replaceAll('\n', ' '))

const describeValue = (kind: Kind, value: unknown) => (kind === 'string' ? String(value) : exactJson(value))

/** Reads a field that the user may have changed. */
export function checkField(field: ArgumentField, text: string | undefined): Checked {
  if (text === field.text && text !== undefined) return checkRange(field, readValue(field.kind, text))
  if (text === undefined || (text.trim() === '' && field.kind !== 'string'))
    return field.isRequired ? { error: 'needsValue' } : { isMissing: true }
  if (text === '' && !field.isRequired) return { isMissing: true }
  if (text === '') return { error: 'needsValue' }
  if (field.kind === 'number' || field.kind === 'integer') {
    const value = Number(text)
    if (!Number.isFinite(value)) return { error: 'needsNumber' }
    if (field.kind === 'integer' && !Number.isSafeInteger(value)) return { error: 'needsInteger' }
    return checkRange(field, { value })
  }
  return checkRange(field, readValue(field.kind, text))
}

function readValue(kind: Kind, text: string): Checked {
  if (kind === 'string') return { value: text }
  try {
    return { value: JSON.parse(text) }
  } catch {
    return { error: 'needsJson' }
  }
}

function checkRange({ schema }: ArgumentField, checked: Checked): Checked {
  if (!('value' in checked)) return checked
  const { value } = checked
  const limit = (name: string) => (typeof schema[name] === 'number' ? schema[name] : undefined)
  const [least, most] = [limit('minimum'), limit('maximum')]
  if (typeof value === 'number') {
    if (least !== undefined && value < least) return { error: 'needsAtLeast', values: { limit: least } }
    if (most !== undefined && value > most) return { error: 'needsAtMost', values: { limit: most } }
  }
  const [shortest, longest] = [limit('minLength'), limit('maxLength')]
  if (typeof value === 'string') {
    if (shortest !== undefined && value.length < shortest) return { error: 'needsLonger', values: { limit: shortest } }
    if (longest !== undefined && value.length > longest) return { error: 'needsShorter', values: { limit: longest } }
  }
  return checked
}

/** A property's name as a label: `product_id` is “Product id”. */
export function labelOf(name: string): string {
  const words = name
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .replace(/[_\-\s]+/g, ' ')
    .trim()
    .toLowerCase()
  return words === '' ? name : words.charAt(0).toUpperCase() + words.slice(1)
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
