import type { IncomingHttpHeaders } from 'node:http'
import { codes, Fault, isObject, type Notification, type Request } from './messages.ts'

/**
 * Two generations of MCP on one endpoint. Since 2026-07-28 every request is self-contained through `_meta` and its
 * headers; before, a client called `initialize` first. The server is stateless in both.
 */
export type Era = 'modern' | 'legacy'

export const modernVersions = ['2026-07-28']
/** Newest first. A client that requests an unknown version gets the newest. */
export const legacyVersions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07']

const versionKey = 'io.modelcontextprotocol/protocolVersion'
const capabilitiesKey = 'io.modelcontextprotocol/clientCapabilities'
const clientInfoKey = 'io.modelcontextprotocol/clientInfo'
export const serverInfoKey = 'io.modelcontextprotocol/serverInfo'

/** Returns the era of a message, or throws if the message violates the rules of that era. */
export function readEra(message: Request | Notification, headers: IncomingHttpHeaders): Era {
  const meta: Record<string, unknown> = message.params?._meta ?? {}
  const version = header(headers, 'mcp-protocol-version')
  const isClaimed = claimsModern(message)
  if (message.method === 'initialize' && !(isClaimed && isModern(meta[versionKey]) && !findFlaw(meta))) {
    if (isModern(version)) throw mismatch('initialize doesn’t exist in the version of the MCP-Protocol-Version header')
    return 'legacy'
  }
  if (isClaimed) checkModern(message, meta, headers)
  else if (isModern(version)) checkUnclaimed(message, headers)
  else checkLegacy(headers)
  return isClaimed || isModern(version) ? 'modern' : 'legacy'
}

/** Whether the message's `_meta` contains a protocol version, which only the newer era has. */
export const claimsModern = ({ params }: Request | Notification): boolean =>
  params?._meta !== undefined && versionKey in params._meta

function checkModern(
  message: Request | Notification,
  meta: Record<string, unknown>,
  headers: IncomingHttpHeaders,
): void {
  const flaw = findFlaw(meta, 'id' in message)
  if (flaw) throw invalidMeta(flaw)
  const claimed = String(meta[versionKey])
  const version = header(headers, 'mcp-protocol-version')
  if (version !== undefined && version !== claimed) {
    throw mismatch(`_meta has the protocol version ${claimed}, the MCP-Protocol-Version header has ${version}`)
  }
  checkMethodHeader(message, headers)
  checkVersion(claimed)
  if (!('id' in message)) return
  if (version === undefined) throw mismatch('The MCP-Protocol-Version header is missing')
  if (headers['mcp-method'] === undefined) throw mismatch('The Mcp-Method header is missing')
  checkNameHeader(message, headers)
}

/** Only notifications may omit `_meta`, if the header has the version. */
function checkUnclaimed(message: Request | Notification, headers: IncomingHttpHeaders): void {
  if ('id' in message) throw invalidMeta({ key: versionKey, problem: 'missing' })
  checkMethodHeader(message, headers)
  checkVersion(header(headers, 'mcp-protocol-version') ?? '')
}

/** Batches and responses exist only in the older era, so this also rejects newer versions. */
export function checkLegacy(headers: IncomingHttpHeaders): void {
  const version = header(headers, 'mcp-protocol-version')
  if (version === undefined || legacyVersions.includes(version)) return
  throw new Fault(codes.refused, `Unsupported protocol version: ${version}; supported: ${legacyVersions.join(', ')}`, {
    status: 400,
  })
}

/** Checks the required and optional fields of `_meta`. */
function findFlaw(meta: Record<string, unknown>, isRequest = true): { key: string; problem: string } | undefined {
  if (typeof meta[versionKey] !== 'string') return { key: versionKey, problem: 'must be a string' }
  if (!isRequest) return undefined
  if (!(capabilitiesKey in meta)) return { key: capabilitiesKey, problem: 'missing' }
  if (!isObject(meta[capabilitiesKey])) return { key: capabilitiesKey, problem: 'must be an object' }
  const info = meta[clientInfoKey]
  const isNamed = isObject(info) && typeof info.name === 'string' && typeof info.version === 'string'
  if (info !== undefined && !isNamed) return { key: clientInfoKey, problem: 'must have a name and a version' }
}

function checkVersion(claimed: string): void {
  if (modernVersions.includes(claimed)) return
  throw new Fault(codes.unsupportedVersion, `Unsupported protocol version: ${claimed}`, {
    status: 400,
    data: { supported: modernVersions, requested: claimed },
  })
}

function checkMethodHeader({ method }: Request | Notification, headers: IncomingHttpHeaders): void {
  const given = header(headers, 'mcp-method')
  if (given !== undefined && given !== method)
    throw mismatch(`The method is ${method}, the Mcp-Method header has ${given}`)
}

/** The parameter that the `Mcp-Name` header repeats for gateways, by method. */
const namedBy: Record<string, string> = { 'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri' }

function checkNameHeader({ method, params }: Request, headers: IncomingHttpHeaders): void {
  const field = Object.hasOwn(namedBy, method) ? namedBy[method] : undefined
  const name = field && params?.[field]
  if (typeof name !== 'string') return
  const given = header(headers, 'mcp-name')
  if (given === undefined) throw mismatch('The Mcp-Name header is missing')
  if (given !== name && decodeHeader(given) !== name) throw mismatch(`The ${field} doesn’t match the Mcp-Name header`)
}

/** Names with characters that headers can't contain are sent as base64. */
function decodeHeader(text: string): string | undefined {
  const encoded = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/.exec(text)?.[1]
  return encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString()
}

const isModern = (version: unknown): boolean => typeof version === 'string' && version >= '2026-07-28'

const header = (headers: IncomingHttpHeaders, name: string): string | undefined => {
  const value = headers[name]
  return typeof value === 'string' ? value.trim() : undefined
}

const mismatch = (text: string) =>
  new Fault(codes.headerMismatch, `Headers and body disagree: ${text}`, { status: 400 })

const invalidMeta = (flaw: { key: string; problem: string }) =>
  new Fault(codes.invalidParams, `Invalid _meta: ${flaw.key}: ${flaw.problem}`, {
    status: 400,
    data: { envelope: flaw },
  })
