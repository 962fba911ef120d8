import { texts } from '../../lib/texts.ts'

export const t = texts('hubArguments', {
  required: 'Fill this in.',
  number: 'Enter a number.',
  integer: 'Enter a whole number.',
  json: 'This isn’t valid JSON.',
  object: 'Enter a JSON object, such as {}.',
})

export interface ArgumentField {
  name: string
  label: string
  hint: string
  isRequired: boolean
  kind: 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'json'
  choices: string[]
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

/** A form with more fields would be harder to fill in than JSON. */
const mostFields = 30

/** The fields of a form for a tool's input, or undefined if its schema is better written as JSON. It's untrusted. */
export function fieldsOf(schema: unknown): ArgumentField[] | undefined {
  if (!isObject(schema)) return undefined
  const properties = schema.properties ?? {}
  if (!isObject(properties) || Object.keys(properties).length > mostFields) return undefined
  const required = Array.isArray(schema.required) ? schema.required : []
  return Object.entries(properties).map(([name, property]) => {
    const about = isObject(property) ? property : {}
    const choices = Array.isArray(about.enum) && about.enum.every((one) => typeof one === 'string') ? about.enum : []
    return {
      name,
      label: textOf(about.title) || name,
      hint: textOf(about.description),
      isRequired: required.includes(name),
      kind: choices.length > 0 ? 'choice' : kindOf(about.type),
      choices,
    }
  })
}

function kindOf(type: unknown): ArgumentField['kind'] {
  if (type === 'string') return 'text'
  return type === 'number' || type === 'integer' || type === 'boolean' ? type : 'json'
}

export type Texts = Record<string, string>

/** Turns what was typed into arguments, or says what is wrong, by the field's name. */
export function readArguments(
  fields: readonly ArgumentField[],
  typed: Texts,
): { args: Record<string, unknown>; problems: Texts } {
  const args: Record<string, unknown> = {}
  const problems: Texts = {}
  for (const field of fields) {
    const text = typed[field.name] ?? ''
    // An empty text is a value only where the tool insists on a text.
    if (text === '' && !(field.isRequired && field.kind === 'text')) {
      if (field.isRequired) problems[field.name] = t.required
      continue
    }
    const { value, problem } = readValue(field.kind, text)
    if (problem) problems[field.name] = problem
    else args[field.name] = value
  }
  return { args, problems }
}

function readValue(kind: ArgumentField['kind'], text: string): { value?: unknown; problem?: string } {
  if (kind === 'boolean') return { value: text === 'true' }
  if (kind === 'json') return readJson(text)
  if (kind !== 'number' && kind !== 'integer') return { value: text }
  const value = Number(text.replace(',', '.'))
  if (!Number.isFinite(value)) return { problem: t.number }
  return kind === 'integer' && !Number.isInteger(value) ? { problem: t.integer } : { value }
}

function readJson(text: string): { value?: unknown; problem?: string } {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return { problem: t.json }
  }
}

/** All arguments, written as JSON. */
export function readObject(text: string): { value?: Record<string, unknown>; problem?: string } {
  const { value, problem } = readJson(text.trim() || '{}')
  if (problem) return { problem }
  return isObject(value) ? { value } : { problem: t.object }
}

/** The texts of a form that has these arguments. */
export const writeTexts = (fields: readonly ArgumentField[], args: Record<string, unknown>): Texts =>
  Object.fromEntries(
    fields.flatMap(({ name, kind }) => {
      const value = args[name]
      if (value === undefined) return []
      return [[name, kind !== 'json' && typeof value === 'string' ? value : JSON.stringify(value)]]
    }),
  )
