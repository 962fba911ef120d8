import { hash } from 'node:crypto'
import {
  maxDefinitionBytes,
  maxDescriptionLength,
  maxSchemaBytes,
  maxTitleLength,
  maxTools,
  type ToolDefinition,
} from '@inlay/protocol'
import { cleanLine, cleanRecord, cleanText, isClean, isTooDeep } from './page-text.ts'

/** A page's tool as callers see it. */
export interface PageTool {
  name: string
  title?: string
  description: string
  inputSchema: Record<string, unknown>
  annotations?: NonNullable<ToolDefinition['annotations']>
  /** Of the definition as the page gave it: it changes with every change, also one that cleaning hides. */
  hash: string
  bytes: number
}

/** The source is closed for it. */
export class OverLimit extends Error {
  override name = 'OverLimit'
}

export interface Refused {
  name: string
  reason: string
}

/**
 * Puts a page's definitions beside those it gave before. A name that cannot be shown as it is, or that is one of ours, is
 * left out with a reason; schemas are kept as data, neither compiled nor looked into.
 */
export function addDefinitions<Kept extends { bytes: number }>(
  known: ReadonlyMap<string, Kept>,
  definitions: readonly ToolDefinition[],
  builtInNames: ReadonlySet<string>,
  keep: (tool: PageTool) => Kept,
): { tools: Map<string, Kept>; refused: Refused[] } {
  if (definitions.length > maxTools) throw new OverLimit(`A source may have ${maxTools} tools`)
  const tools = new Map(known)
  const refused: Refused[] = []
  const seen = new Set<string>()
  for (const definition of definitions) {
    const { name } = definition
    const reason = seen.has(name) ? 'Listed twice' : findFlaw(definition, builtInNames)
    seen.add(name)
    if (reason) refused.push({ name: cleanText(name), reason })
    else tools.set(name, keep(readDefinition(definition)))
  }
  if (tools.size > maxTools) throw new OverLimit(`A source may have ${maxTools} tools`)
  let bytes = 0
  for (const tool of tools.values()) bytes += tool.bytes
  if (bytes > maxDefinitionBytes)
    throw new OverLimit(`All definitions of a source may take ${maxDefinitionBytes} bytes`)
  return { tools, refused }
}

function findFlaw({ name, inputSchema }: ToolDefinition, builtInNames: ReadonlySet<string>): string | undefined {
  if (!isClean(name) || name.trim() !== name) return 'The name has characters that cannot be shown'
  if (builtInNames.has(name)) return 'The name is that of a built-in tool'
  if (isTooDeep(inputSchema)) return 'The schema is nested too deeply'
  return undefined
}

function readDefinition(definition: ToolDefinition): PageTool {
  const { name, title, description, inputSchema, annotations } = definition
  const schemaBytes = Buffer.byteLength(JSON.stringify(inputSchema))
  if (schemaBytes > maxSchemaBytes) throw new OverLimit(`The schema of a tool may take ${maxSchemaBytes} bytes`)
  return {
    name,
    ...(title !== undefined && { title: cleanLine(title, maxTitleLength) }),
    description: cleanText(description, maxDescriptionLength),
    inputSchema: cleanRecord(inputSchema),
    ...(annotations && { annotations: cleanAnnotations(annotations) }),
    hash: hash('sha256', JSON.stringify(sortMembers(definition)), 'base64url'),
    bytes: schemaBytes + Buffer.byteLength(name) + Buffer.byteLength(description),
  }
}

function cleanAnnotations({ title, ...hints }: NonNullable<ToolDefinition['annotations']>) {
  return { ...(title !== undefined && { title: cleanLine(title, maxTitleLength) }), ...hints }
}

/** Whether a tool may be called without asking the user. One that contradicts itself may not. */
export const onlyReads = ({ annotations: hints }: Pick<PageTool, 'annotations'>): boolean =>
  hints?.readOnlyHint === true && !hints.destructiveHint && !hints.consequentialHint

/** The same value has the same JSON, in whatever order its members were written. */
export function sortMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortMembers)
  if (typeof value !== 'object' || value === null) return value
  const sorted = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(sorted.map(([name, member]) => [name, sortMembers(member)]))
}
