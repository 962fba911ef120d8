import { type CacheKey, InMemoryResponseCacheStore } from '@modelcontextprotocol/client'

/** Maximum size of a client's reduced list, in characters. There are hundreds of clients. */
const maxLength = 64 * 1024

type Entry = Parameters<InMemoryResponseCacheStore['set']>[1]
type Schema = { type?: unknown; properties?: Record<string, unknown>; 'x-mcp-header'?: unknown }

/**
 * The MCP client uses the list of tools in its response cache to copy arguments into `Mcp-Param-*` headers. This cache
 * keeps only the tools and properties that declare such a header, because whole lists take megabytes per user.
 */
export class MirroredHeaders extends InMemoryResponseCacheStore {
  override set(key: CacheKey, entry: Entry): number {
    return super.set(key, key.method === 'tools/list' ? { ...entry, value: reduceList(entry.value) } : entry)
  }
}

function reduceList(list: string): string {
  const none = '{"tools":[]}'
  // Skips parsing long lists, because few servers use this feature.
  if (!list.includes('"x-mcp-header"')) return none
  const { tools } = JSON.parse(list) as { tools: { name: string; inputSchema: Schema }[] }
  const reduced = tools.flatMap(({ name, inputSchema }) => {
    const schema = reduceSchema(inputSchema)
    return schema ? [{ name, inputSchema: schema }] : []
  })
  const text = JSON.stringify({ tools: reduced })
  return text.length > maxLength ? none : text
}

/** Keeps the parts of a schema that contain a declared header; undefined if there are none. */
function reduceSchema(schema: unknown, depth = 0): Schema | undefined {
  if (typeof schema !== 'object' || schema === null || depth > maxDepth) return undefined
  const { type, properties = {}, 'x-mcp-header': header } = schema as Schema
  const kept = Object.entries(properties).flatMap(([name, property]) => {
    const reduced = reduceSchema(property, depth + 1)
    return reduced ? [[name, reduced] as const] : []
  })
  if (kept.length === 0 && header === undefined) return undefined
  return {
    type,
    ...(kept.length > 0 && { properties: Object.fromEntries(kept) }),
    ...(header !== undefined && { 'x-mcp-header': header }),
  }
}

/** Listing tools refuses deeper schemas. */
const maxDepth = 64
