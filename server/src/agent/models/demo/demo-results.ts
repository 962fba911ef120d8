import type { LanguageModelV4ToolResultPart } from '@ai-sdk/provider'
import { InvalidJson, parseJson } from '../../../kernel/lib/json.ts'
import { singularOf, wordsOf } from './demo-words.ts'

const longestResult = 1_000
const mostRows = 10
const mostColumns = 6
const longestCell = 100

type Fields = Record<string, unknown>

/** Tells the user in Markdown what a tool returned. `said` is what the user wanted to know. */
export function reportResult({ toolName, output }: LanguageModelV4ToolResultPart, said: string): string {
  switch (output.type) {
    case 'execution-denied':
      return `The tool ${toolName} wasn't allowed to run${output.reason ? `: ${shorten(output.reason)}` : '.'}`
    case 'error-text':
      return `The tool ${toolName} failed: ${shorten(output.value)}`
    case 'error-json':
      return `The tool ${toolName} failed: ${shorten(JSON.stringify(output.value))}`
    case 'text':
      return describeText(toolName, output.value, said)
    case 'json':
      return describeData(toolName, output.value, said)
    case 'content': {
      const texts = output.value.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`))
      return describeText(toolName, texts.join(' '), said)
    }
  }
}

const shorten = (text: string, length = longestResult) =>
  text.length > length ? `${text.slice(0, length).toWellFormed()}…` : text

/** The agent puts what a tool returned into an element, and says in plain text why there is no result. */
function describeText(toolName: string, text: string, said: string): string {
  if (text.startsWith('The user declined')) return 'All right, I haven’t changed anything.'
  const [, returned = text] = text.match(/<tool_result[^>]*>\n(.*)\n<\/tool_result>/s) ?? []
  try {
    return describeData(toolName, parseJson(returned), said)
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error
    return `The tool ${toolName} returned: ${shorten(returned)}`
  }
}

function describeData(toolName: string, data: unknown, said: string): string {
  if (isList(data)) return describeList('results', data, said)
  if (!isFields(data)) return `The tool ${toolName} returned: ${shorten(String(data))}`
  const [name, list] = Object.entries(data).find(([, value]) => isList(value)) ?? []
  const others = Object.entries(data).filter(([key]) => key !== name)
  const lines = others.slice(0, mostRows).map(([key, value]) => `- **${labelOf(key)}:** ${cellOf(value)}`)
  if (name !== undefined) return [describeList(name, list as Fields[], said), ...lines].join('\n\n')
  const isDone = !others.some(([, value]) => value === false)
  return [isDone ? 'Done.' : `The tool ${toolName} returned:`, lines.join('\n')].join('\n\n')
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isList = (value: unknown): value is Fields[] => Array.isArray(value) && value.every(isFields)

/** Only shows the entries that the user named, such as the order with a number. */
function describeList(name: string, list: readonly Fields[], said: string): string {
  const words = new Set(wordsOf(said))
  const named = list.filter((entry) => findNamed(entry, words) !== undefined)
  const [only] = named
  if (only && named.length === 1 && typeof only.status === 'string') return describeStatus(name, only, words)
  const shown = named.length > 0 ? named : list
  const noun = labelOf(name).toLowerCase()
  if (shown.length === 0) return `I found no ${noun}.`
  const count = `${shown.length} ${shown.length === 1 ? singularOf(noun) : noun}`
  const rest = shown.length > mostRows ? [`…and ${shown.length - mostRows} more.`] : []
  return [`I found ${count}:`, writeTable(shown.slice(0, mostRows)), ...rest].join('\n\n')
}

/** The value of the entry that is one of the words. */
const findNamed = (entry: Fields, words: ReadonlySet<string>): string | undefined =>
  Object.values(entry)
    .filter((value) => typeof value === 'string' || typeof value === 'number')
    .map(String)
    .find((value) => words.has(value.toLowerCase()))

function describeStatus(name: string, entry: Fields, words: ReadonlySet<string>): string {
  const about = entry.name ?? entry.title ?? entry.item
  const details = typeof about === 'string' ? ` (${cellOf(about)})` : ''
  return `${singularOf(labelOf(name))} ${cellOf(findNamed(entry, words))}${details} is **${cellOf(entry.status)}**.`
}

function writeTable(rows: readonly Fields[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].slice(0, mostColumns)
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [
    line(columns.map(labelOf)),
    line(columns.map(() => '---')),
    ...rows.map((row) => line(columns.map((column) => cellOf(row[column])))),
  ].join('\n')
}

/** `product_id` is shown as "Product id". */
function labelOf(name: string): string {
  const spaced = escapeMarkdown(shorten(name, longestCell)).replaceAll(/\\?_/g, ' ')
  return spaced.charAt(0).toUpperCase() + spaced.slice(1)
}

function cellOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (isFields(value)) {
    const entries = Object.entries(value).slice(0, mostRows)
    return entries.map(([key, each]) => `${escapeMarkdown(shorten(key, longestCell))}: ${cellOf(each)}`).join(', ')
  }
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  return escapeMarkdown(shorten(text, longestCell))
}

/** What tools return is untrusted text: it must stay in its cell, and not become a link. */
const escapeMarkdown = (text: string): string => text.replaceAll(/\s+/g, ' ').replaceAll(/[\\`*_{}[\]<>|#!~]/g, '\\$&')
