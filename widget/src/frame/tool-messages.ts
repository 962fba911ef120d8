import {
  type ClientMessageInput,
  maxDefinitionBytes,
  maxMessageBytes,
  maxSchemaBytes,
  maxTools,
  ToolDefinition,
} from '../../../server/src/runtime/protocol.ts'
import type { PageTool } from '../channel.ts'

/** Room for what is around the definitions in a message. */
const wrappingBytes = 1024

export interface SortedTools {
  accepted: PageTool[]
  /** Names of tools that the runtime would not take. */
  leftOut: string[]
}

/** The page's tools within the runtime's limits: going over one of them would end the connection. */
export function sortTools(tools: readonly PageTool[]): SortedTools {
  const accepted: PageTool[] = []
  const leftOut: string[] = []
  let bytes = 0
  for (const tool of tools) {
    const { data } = ToolDefinition.safeParse(tool)
    const size = bytesOf(data ?? {})
    const fits =
      data &&
      accepted.length < maxTools &&
      bytes + size <= maxDefinitionBytes &&
      size <= maxMessageBytes - wrappingBytes &&
      bytesOf(data.inputSchema) <= maxSchemaBytes
    if (!fits) leftOut.push(tool.name)
    else {
      accepted.push(tool)
      bytes += size
    }
  }
  return { accepted, leftOut }
}

/** All tools: a list of the first ones, and the rest as changes, none of them too large. */
export function listTools(tools: readonly PageTool[]): ClientMessageInput[] {
  const [first = [], ...rest] = cutIntoMessages(tools)
  return [{ type: 'tools/list', tools: first }, ...rest.map((set) => ({ type: 'tools/changed', set }) as const)]
}

/** What is different now, or nothing. */
export function tellChanges(before: readonly PageTool[], after: readonly PageTool[]): ClientMessageInput[] {
  const known = new Map(before.map((tool) => [tool.name, JSON.stringify(tool)]))
  const changed = after.filter((tool) => known.get(tool.name) !== JSON.stringify(tool))
  const names = new Set(after.map(({ name }) => name))
  const removed = before.map(({ name }) => name).filter((name) => !names.has(name))
  // First those that go, since they make room.
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
