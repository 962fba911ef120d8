import type { LanguageModelV4FunctionTool } from '@ai-sdk/provider'
import { InvalidJson, parseJson } from '../../../kernel/lib/json.ts'
import { singularOf, spelledNumbersOf, wordsOf } from './demo-words.ts'

/** A tool as the demo model sees it. */
export interface DemoTool {
  name: string
  /** The words of the name, in lower case. */
  words: readonly string[]
  description: string
  properties: readonly Property[]
}

interface Property {
  name: string
  type: 'string' | 'number' | 'integer' | 'boolean' | 'other'
  /** Allowed values, if the schema lists them. */
  options: readonly string[]
  isRequired: boolean
}

const types = ['string', 'number', 'integer', 'boolean'] as const
const mostProperties = 50

/** Schemas are untrusted, so unexpected parts are ignored. */
export function readTool({ name, description = '', inputSchema }: LanguageModelV4FunctionTool): DemoTool {
  const { properties, required } = inputSchema
  const needed = new Set(Array.isArray(required) ? required : [])
  const entries = Object.entries(isRecord(properties) ? properties : {}).slice(0, mostProperties)
  return {
    name,
    words:
      name
        .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
        .toLowerCase()
        .match(/[a-z0-9]+/g) ?? [],
    description,
    properties: entries.map(([property, schema]) => {
      const { type, enum: options }: { type?: unknown; enum?: unknown } = isRecord(schema) ? schema : {}
      return {
        name: property,
        type: types.find((known) => known === type) ?? 'other',
        options: Array.isArray(options) ? options.filter((option) => typeof option === 'string') : [],
        isRequired: needed.has(property),
      }
    }),
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

export interface Arguments {
  input: Record<string, unknown>
  /** Required properties that the text has no value for. */
  missing: string[]
}

/** Reads a tool's arguments from a message: JSON, `name: value`, listed values, a number, and the remaining text. */
export function readArguments(tool: DemoTool, said: string): Arguments {
  const input: Record<string, unknown> = { ...readJson(tool, said) }
  let rest = said
  const open = () => tool.properties.filter(({ name }) => !Object.hasOwn(input, name))
  for (const property of open()) {
    const found = readLabelled(property, rest)
    if (!found) continue
    input[property.name] = found.value
    rest = rest.replace(found.text, ' ')
  }
  for (const { name, options } of open()) {
    const option = options.find((each) => containsWord(rest, each)) ?? findOption(options, rest)
    if (option !== undefined) input[name] = option
  }
  const numbers = open().filter(({ type }) => type === 'number' || type === 'integer')
  const figures = rest.match(/(?<![\w.-])-?\d+(?:\.\d+)?(?![\w-])/g) ?? []
  const [number] = numbers
  if (
    number &&
    numbers.length === 1 &&
    figures.length === 1 &&
    (number.type === 'number' || !figures[0]?.includes('.'))
  ) {
    input[number.name] = Number(figures[0])
  }
  const spelled = spelledNumbersOf(rest)
  if (number && numbers.length === 1 && figures.length === 0 && spelled.length === 1) input[number.name] = spelled[0]
  const texts = open().filter(({ type, options }) => type === 'string' && options.length === 0)
  const needed = texts.filter(({ isRequired }) => isRequired)
  const [text] = needed.length > 0 ? needed : texts
  const value = (needed.length > 0 ? needed : texts).length === 1 ? readText(tool, rest) : ''
  if (text && value) input[text.name] = value
  return { input, missing: open().flatMap(({ name, isRequired }) => (isRequired ? [name] : [])) }
}

function readJson({ properties }: DemoTool, said: string): Record<string, unknown> {
  const [start, end] = [said.indexOf('{'), said.lastIndexOf('}')]
  if (start < 0 || end < start) return {}
  try {
    const value = parseJson(said.slice(start, end + 1))
    const known = new Set(properties.map(({ name }) => name))
    return isRecord(value) ? Object.fromEntries(Object.entries(value).filter(([name]) => known.has(name))) : {}
  } catch (error) {
    if (error instanceof InvalidJson) return {}
    throw error
  }
}

/** `quantity: 2`, `quantity = 2`, `quantity is 2`; the name can have spaces instead of underscores. */
function readLabelled({ name, type }: Property, said: string): { value: unknown; text: string } | undefined {
  const spelled = RegExp.escape(name).replaceAll(/_|\\x2d/g, '[ _-]')
  const label = new RegExp(`(?<![\\p{L}\\p{N}_])${spelled}(?: ?[:=] ?| is )(?:"([^"]*)"|'([^']*)'|([^\\s,;]+))`, 'iu')
  const [text, ...values] = said.match(label) ?? []
  const value = values.find((each) => each !== undefined)
  if (text === undefined || value === undefined) return undefined
  const converted = convert(type, values[2] === undefined ? value : value.replace(/[.!?]+$/, ''))
  return converted === undefined ? undefined : { value: converted, text }
}

function convert(type: Property['type'], text: string): unknown {
  if (type === 'string') return text
  if (type === 'boolean') return { true: true, yes: true, false: false, no: false }[text.toLowerCase()]
  const number = Number(text)
  if (type === 'number') return text !== '' && Number.isFinite(number) ? number : undefined
  if (type === 'integer') return text !== '' && Number.isSafeInteger(number) ? number : undefined
  return undefined
}

const containsWord = (text: string, word: string): boolean =>
  new RegExp(`(?<![\\p{L}\\p{N}_])${RegExp.escape(word)}(?![\\p{L}\\p{N}_])`, 'iu').test(text)

/** The option whose words are all in the text, in any order: "blue ink" is `ink-blue`. */
function findOption(options: readonly string[], text: string): string | undefined {
  const said = new Set(wordsOf(text).map(singularOf))
  const found = options
    .map((option) => ({ option, words: wordsOf(option).map(singularOf) }))
    .filter(({ words }) => words.length > 0 && words.every((word) => said.has(word)))
    .toSorted((one, other) => other.words.length - one.words.length)
  const [best, second] = found
  return best && best.words.length !== second?.words.length ? best.option : undefined
}

/** Text in quotes, or the text after the tool's name. */
function readText({ name, words }: DemoTool, said: string): string {
  const [, quoted] = said.match(/["“]([^"”]+)["”]/) ?? []
  if (quoted) return quoted
  const lower = said.toLowerCase()
  const written = lower.indexOf(name.toLowerCase())
  // The last word of the name may be in the plural.
  const ends = words.map((word) => lower.indexOf(word)).filter((at) => at >= 0)
  const start = written >= 0 ? written + name.length : Math.max(...ends, -1)
  if (start < 0) return ''
  const after = written >= 0 ? said.slice(start) : said.slice(start).replace(/^[\p{L}\p{N}]+/u, '')
  return after
    .replace(/^[\s:,]*(?:(?:about|called|for|is|named|number|please|the|to|with)\s+)*/i, '')
    .replace(/[\s.!?]+$/, '')
}
