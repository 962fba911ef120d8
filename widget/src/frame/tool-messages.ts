import type { ClientMessageInput } from '@inlay/protocol'
import { maxDefinitionBytes, maxMessageBytes, maxNameLength, maxSchemaBytes, maxTools } from '@inlay/protocol/values'
import { annotationNames, type PageTool, type ToolAnnotations } from '../channel.ts'

/** Reserved for the message around the definitions. */
const wrappingBytes = 1024

export interface LeftOut {
  name: string
  reason: string
}

export interface SortedTools {
  accepted: PageTool[]
  /** Tools that the runtime wouldn't accept. */
  leftOut: LeftOut[]
}

/** Selects the page's tools that fit the runtime's limits, because exceeding a limit would end the connection. */
export function sortTools(tools: readonly PageTool[]): SortedTools {
  const accepted: PageTool[] = []
  const leftOut: LeftOut[] = []
  let bytes = 0
  for (const tool of tools) {
    const size = bytesOf({ inputSchema: noInput, ...tool })
    const reason = findFlaw(tool, size) ?? findFullness(accepted.length, bytes + size)
    if (reason) leftOut.push({ name: isText(tool.name) ? tool.name : '(unnamed)', reason })
    else {
      accepted.push(tool)
      bytes += size
    }
  }
  return { accepted, leftOut }
}

/** The schema that the server adds to a tool without one. */
const noInput = { type: 'object', properties: {} }

function findFlaw({ name, title, description, inputSchema, annotations }: PageTool, size: number): string | undefined {
  if (!isText(name) || name.length < 1 || name.length > maxNameLength)
    return `its name must have 1 to ${maxNameLength} characters`
  if (title !== undefined && !isText(title)) return 'its title isn’t valid'
  if (description !== undefined && !isText(description)) return 'its description isn’t valid'
  if (inputSchema !== undefined && !isObject(inputSchema)) return 'its inputSchema isn’t a JSON object'
  if (annotations !== undefined && !areHints(annotations)) return 'its annotations aren’t valid'
  if (bytesOf(inputSchema ?? noInput) > maxSchemaBytes) return `its inputSchema is larger than ${maxSchemaBytes} bytes`
  if (size > maxMessageBytes - wrappingBytes) return `its definition is larger than ${maxMessageBytes} bytes`
  return undefined
}

const isText = (value: unknown) => typeof value === 'string'
const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)
const areHints = (given: ToolAnnotations) =>
  isObject(given) && annotationNames.every((name) => given[name] === undefined || typeof given[name] === 'boolean')

function findFullness(count: number, bytes: number): string | undefined {
  if (count >= maxTools) return `a page can offer at most ${maxTools} tools`
  if (bytes > maxDefinitionBytes)
    return `the definitions of a page can have at most ${maxDefinitionBytes} bytes in total`
  return undefined
}

/** Splits the tools into messages within the size limit: a list of the first ones, then the rest as changes. */
export function listTools(tools: readonly PageTool[]): ClientMessageInput[] {
  const [first = [], ...rest] = cutIntoMessages(tools)
  return [{ type: 'tools/list', tools: first }, ...rest.map((set) => ({ type: 'tools/changed', set }) as const)]
}

/** Returns the messages for what changed; none if nothing did. */
export function tellChanges(before: readonly PageTool[], after: readonly PageTool[]): ClientMessageInput[] {
  const known = new Map(before.map((tool) => [tool.name, JSON.stringify(tool)]))
  const changed = after.filter((tool) => known.get(tool.name) !== JSON.stringify(tool))
  const names = new Set(after.map(({ name }) => name))
  const removed = before.map(({ name }) => name).filter((name) => !names.has(name))
  // Removals come first, because they make room.
  const going: ClientMessageInput[] = removed.length > 0 ? [{ type: 'tools/changed', removed }] : []
  return [...going, ...cutIntoMessages(changed).map((set) => ({ type: 'tools/changed', set }) as const)]
}

function cutIntoMessages(tools: readonly PageTool[]): PageTool[][] {
  const messages: PageTool[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const tool of tools) {
    const size = bytesOf(tool) + 1
    if (bytes + size > maxMessageBytes - wrappingBytes) {
      messages.push([])
      bytes = 0
    }
    messages.at(-1)?.push(tool)
    bytes += size
  }
  return messages
}

export const bytesOf = (value: unknown): number => new TextEncoder().encode(JSON.stringify(value)).length
