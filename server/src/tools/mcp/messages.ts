import type { JSONRPCNotification, JSONRPCRequest } from '@modelcontextprotocol/server'

export type Request = JSONRPCRequest
export type Notification = JSONRPCNotification

/** Error codes of JSON-RPC, and of MCP from -32000 on. */
export const codes = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  /** For errors without a specific code; the HTTP status distinguishes them. */
  refused: -32000,
  headerMismatch: -32020,
  unsupportedVersion: -32022,
} as const

/** An invalid message. Errors in a tool's input or execution are part of the tool's result instead. */
export class Fault extends Error {
  override name = 'Fault'
  readonly code: number
  readonly data: unknown
  readonly status: number
  readonly headers: Record<string, string>

  constructor(
    code: number,
    message: string,
    options: { data?: unknown; status?: number; headers?: Record<string, string> } = {},
  ) {
    super(message)
    this.code = code
    this.data = options.data
    this.status = options.status ?? 200
    this.headers = options.headers ?? {}
  }
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const memberNames = new Set(['jsonrpc', 'id', 'method', 'params'])

/** Classifies a message. Responses are valid but unused, because the server sends no requests. */
export function kindOf(message: unknown): 'request' | 'notification' | 'response' | 'invalid' {
  if (!isObject(message) || message.jsonrpc !== '2.0') return 'invalid'
  if (message.method === undefined) return isResponse(message) ? 'response' : 'invalid'
  if (typeof message.method !== 'string') return 'invalid'
  if (message.params !== undefined && !hasValidMeta(message.params)) return 'invalid'
  for (const name in message) if (!memberNames.has(name)) return 'invalid'
  if (message.id === undefined) return 'notification'
  return isId(message.id) ? 'request' : 'invalid'
}

function hasValidMeta(params: unknown): boolean {
  if (!isObject(params)) return false
  const { _meta } = params
  if (_meta === undefined) return true
  return isObject(_meta) && (_meta.progressToken === undefined || isId(_meta.progressToken))
}

const isId = (id: unknown): id is string | number => typeof id === 'string' || Number.isInteger(id)

function isResponse({ id, result, error }: Record<string, unknown>): boolean {
  if (error === undefined) return isObject(result) && isId(id)
  return result === undefined && isObject(error) && Number.isInteger(error.code) && typeof error.message === 'string'
}

/** The ID for the response to an invalid message, if it can be read. */
export function idOf(message: unknown): string | number | null {
  if (!isObject(message) || typeof message.method !== 'string') return null
  return typeof message.id === 'string' || typeof message.id === 'number' ? message.id : null
}

/** `result` is already JSON. */
export const encodeResult = (id: string | number, result: string): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`

export const encodeFault = (id: string | number | null, { code, message, data }: Fault): string =>
  JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } })
