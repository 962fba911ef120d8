import type { Implementation, ServerCapabilities } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { type Caller, requireAccess } from '../../kernel/foundation/caller.ts'
import { check } from '../../kernel/foundation/input.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Relayed, Tool, ToolAccess } from '../../kernel/foundation/tool.ts'
import { Failure, internalError } from '../../kernel/lib/errors.ts'
import { createCancellations, keyOf } from './cancellations.ts'
import { type Era, legacyVersions, modernVersions, serverInfoKey } from './eras.ts'
import { Call, type Exchange } from './exchange.ts'
import { codes, Fault, isObject, type Request } from './messages.ts'

/** Everything a server offers, identical in both eras. */
export interface Offer<Needs> {
  info: Implementation
  instructions: string
  capabilities: ServerCapabilities
  tools: readonly Tool<Needs>[]
  /** Additional methods; those for tools and for the server itself are built in. */
  methods: Readonly<Record<string, Method>>
}

export interface Method {
  handler(service: Service, caller: Caller, params: Params): Promise<object>
  /** How long clients may cache the response. Omitted for methods whose responses can't be cached. */
  ttlMs?: number
}

export type Params = Record<string, unknown>

export interface Dispatcher {
  /** Returns the result as JSON. Throws a Fault if the message is invalid. */
  dispatch(request: Request, era: Era, caller: Caller, exchange: Exchange): string | Promise<string>
  /** Cancels a request that its client no longer waits for. */
  cancel(caller: Caller, requestId: string | number): void
  /** Name of the request's tool or method for logs and metrics, from a bounded set. */
  nameOf(request: Request): string
}

const toolListTtlMs = 60_000

/**
 * Our own, because the SDK's server takes many times the CPU time (bench/README.md, section MCP; docs/decisions/0010).
 * Serializes everything that doesn't depend on a request only once.
 */
export async function createDispatcher<Needs extends Service>(
  service: Needs,
  offer: Offer<Needs>,
): Promise<Dispatcher> {
  const { info, instructions, capabilities, methods } = offer
  const cancellations = await createCancellations(service)
  const tools = new Map(offer.tools.map((tool) => [tool.name, tool]))
  const meta = { [serverInfoKey]: info }
  /** End of a result object that is serialized by hand. */
  const tail = { legacy: '}', modern: `,"resultType":"complete","_meta":${JSON.stringify(meta)}}` }

  const encode = (era: Era, result: object, ttlMs?: number): string =>
    era === 'legacy'
      ? JSON.stringify(result)
      : JSON.stringify({
          ...result,
          resultType: 'complete',
          ...(ttlMs !== undefined && { ttlMs, cacheScope: 'private' }),
          _meta: { ...(result as Partial<Relayed>)._meta, ...meta },
        })

  const makeLists = () => {
    const described = offer.tools.map((tool) => ({ tool, description: describeTool(tool) }))
    const listTools = (isListed: (tool: Tool<Needs>) => boolean) => {
      const list = { tools: described.filter(({ tool }) => isListed(tool)).map(({ description }) => description) }
      return { legacy: encode('legacy', list), modern: encode('modern', list, toolListTtlMs) }
    }
    const listsOf = (isOffered: (tool: Tool<Needs>) => boolean) => ({
      admin: listTools((tool) => isOffered(tool) && mayCall('admin', tool.access)),
      member: listTools((tool) => isOffered(tool) && mayCall('member', tool.access)),
      none: listTools((tool) => isOffered(tool) && mayCall(undefined, tool.access)),
    })
    return { user: listsOf(() => true), serviceAccount: listsOf(({ usersOnly }) => usersOnly === undefined) }
  }
  /** Made when first asked for, because describing all tools takes as long as the rest of a start. */
  let lists: ReturnType<typeof makeLists> | undefined
  const introductions = new Map(
    legacyVersions.map((protocolVersion) => [
      protocolVersion,
      encode('legacy', { protocolVersion, capabilities, serverInfo: info, instructions }),
    ]),
  )
  const discovery = encode('modern', { supportedVersions: modernVersions, capabilities, instructions }, toolListTtlMs)

  async function callTool({ id, params = {} }: Request, era: Era, caller: Caller, exchange: Exchange): Promise<string> {
    const { name, arguments: given = {} } = params
    if (typeof name !== 'string') throw new Fault(codes.invalidParams, 'Invalid params: name must be a string')
    if (!isObject(given)) throw new Fault(codes.invalidParams, 'Invalid params: arguments must be an object')
    const tool = tools.get(name)
    if (!tool) throw new Fault(codes.invalidParams, `Unknown tool: ${name}`)
    try {
      requireAccess(caller, tool)
      const input = check(tool.input, given)
      const call = new Call(exchange, params._meta, cancellations, () => keyOf(caller, id))
      const output = await tool.handler(service, caller, input, call)
      if (!tool.output) return encode(era, output as Relayed)
      const json = JSON.stringify(output)
      return `{"content":[{"type":"text","text":${JSON.stringify(json)}}],"structuredContent":${json}${tail[era]}`
    } catch (error) {
      if (error instanceof Fault) throw error
      const { envelope, advice } = readFailure(service, error, exchange)
      const texts = [JSON.stringify(envelope), ...(advice ? [advice] : [])]
      const content = texts.map((text) => ({ type: 'text', text }))
      return `{"content":${JSON.stringify(content)},"isError":true${tail[era]}`
    }
  }

  async function callMethod({ method, params = {} }: Request, era: Era, caller: Caller): Promise<string> {
    const known = Object.hasOwn(methods, method) ? methods[method] : undefined
    if (!known) {
      throw new Fault(codes.methodNotFound, 'Method not found', { status: era === 'modern' ? 404 : 200 })
    }
    return encode(era, await known.handler(service, caller, params), known.ttlMs)
  }

  return {
    dispatch(request, era, caller, exchange) {
      const { method, params = {} } = request
      if (method === 'tools/call') return callTool(request, era, caller, exchange)
      if (method === 'tools/list') {
        lists ??= makeLists()
        return lists[caller.user ? 'user' : 'serviceAccount'][caller.role ?? 'none'][era]
      }
      if (era === 'modern' && method === 'server/discover') return discovery
      if (era === 'legacy' && method === 'initialize') return introduce(introductions, params)
      if (era === 'legacy' && method === 'ping') return '{}'
      return callMethod(request, era, caller)
    },
    cancel: (caller, requestId) => cancellations.cancel(keyOf(caller, requestId)),
    nameOf({ method, params }) {
      if (method === 'tools/call') return tools.has(params?.name as string) ? `mcp:${params?.name}` : 'mcp'
      return ownMethods.has(method) || Object.hasOwn(methods, method) ? `mcp:${method}` : 'mcp'
    },
  }
}

const ownMethods = new Set(['tools/list', 'server/discover', 'initialize', 'ping'])

const mayCall = (role: Caller['role'], access: ToolAccess): boolean =>
  access === 'user' || role === 'admin' || (role !== undefined && access === 'org')

/** Responds to an unknown version with the newest one, as the specification requires; the client decides if it fits. */
function introduce(introductions: Map<string, string>, { protocolVersion, capabilities, clientInfo }: Params): string {
  if (typeof protocolVersion !== 'string' || !isObject(capabilities) || !isObject(clientInfo)) {
    throw new Fault(
      codes.invalidParams,
      'Invalid params: initialize needs protocolVersion, capabilities and clientInfo',
    )
  }
  return introductions.get(protocolVersion) ?? (introductions.get(legacyVersions[0] as string) as string)
}

/** Callers see only the text of a Failure; other errors are logged. */
export function readFailure({ log }: Service, error: unknown, { requestId }: Exchange): Failure {
  const failure = error instanceof Failure ? error : internalError(error)
  const details = { request_id: requestId, err: failure.cause ?? failure }
  if (failure.envelope.status >= 500) log.error(details, 'MCP request failed')
  else log.debug(details, 'MCP request refused')
  return failure
}

function describeTool({ name, title, description, input, output, annotations }: Tool<never>) {
  return {
    name,
    title,
    description,
    inputSchema: describeShape(input, 'input'),
    ...(output && { outputSchema: describeShape(output, 'output') }),
    annotations: { title, ...annotations },
  }
}

/** Removes the names that OpenAPI uses, so that each tool's schema has no references. */
const withoutNames = {
  get(type: z.ZodType) {
    const { id, ...rest } = z.globalRegistry.get(type) ?? {}
    return rest
  },
} as unknown as typeof z.globalRegistry

/** Clients of the older era require `type: object` at the root, also for a union of objects. */
function describeShape(type: z.ZodType, io: 'input' | 'output') {
  const { $schema, ...schema } = z.toJSONSchema(type, { io, metadata: withoutNames, override: shorten })
  return { type: 'object', ...schema }
}

/** Removes what a format or number type already implies, because models read every list. */
function shorten({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
}
