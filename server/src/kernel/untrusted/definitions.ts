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
  /** Hash of the page's original definition, so that it also changes with characters that cleaning removes. */
  hash: string
  bytes: number
}

/** Closes the source. */
export class OverLimit extends Error {
  override name = 'OverLimit'
}

export interface Refused {
  name: string
  reason: string
}

/**
 * Reads definitions of a source. Tools whose name has hidden characters or belongs to a built-in tool are refused with a
 * reason. Schemas are kept as data and never compiled.
 */
export function readDefinitions<Kept extends { bytes: number }>(
  definitions: readonly ToolDefinition[],
  builtInNames: ReadonlySet<string>,
  keep: (tool: PageTool) => Kept,
): { tools: Map<string, Kept>; refused: Refused[] } {
  requireFit(definitions.length, 0)
  const tools = new Map<string, Kept>()
  const refused: Refused[] = []
  const seen = new Set<string>()
  for (const definition of definitions) {
    const { name } = definition
    const reason = seen.has(name) ? 'Listed twice' : findFlaw(definition, builtInNames)
    seen.add(name)
    if (reason) refused.push({ name: cleanText(name), reason })
    else tools.set(name, keep(readDefinition(definition)))
  }
  let bytes = 0
  for (const tool of tools.values()) bytes += tool.bytes
  requireFit(tools.size, bytes)
  return { tools, refused }
}

/** Throws if a source has too many tools, or too long ones. */
export function requireFit(tools: number, bytes: number): void {
  if (tools > maxTools) throw new OverLimit(`A source can have at most ${maxTools} tools`)
  if (bytes > maxDefinitionBytes)
    throw new OverLimit(`A source’s definitions can have at most ${maxDefinitionBytes} bytes in total`)
}

function findFlaw({ name, inputSchema }: ToolDefinition, builtInNames: ReadonlySet<string>): string | undefined {
  if (!isClean(name) || name.trim() !== name) return 'The name has hidden characters, or spaces at its ends'
  if (builtInNames.has(name)) return 'A built-in tool has this name'
  if (isTooDeep(inputSchema)) return 'The schema is nested too deeply'
  return undefined
}

function readDefinition(definition: ToolDefinition): PageTool {
  const { name, title, description, inputSchema, annotations } = definition
  const schemaBytes = Buffer.byteLength(JSON.stringify(inputSchema))
  if (schemaBytes > maxSchemaBytes) throw new OverLimit(`A tool’s schema can have at most ${maxSchemaBytes} bytes`)
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

/** Whether a tool may run without asking the user. Contradictory hints mean that it may not. */
export const onlyReads = ({ annotations: hints }: Pick<PageTool, 'annotations'>): boolean =>
  hints?.readOnlyHint === true && !hints.destructiveHint && !hints.consequentialHint

/** Sorts keys recursively, so that equal values have equal JSON. */
export function sortMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortMembers)
  if (typeof value !== 'object' || value === null) return value
  const sorted = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(sorted.map(([name, member]) => [name, sortMembers(member)]))
}
