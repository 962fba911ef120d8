import { expect } from 'vitest'
import { tools } from '../src/api.ts'
import type { TestService } from './harness.ts'

/** JSON-RPC messages of clients from both eras of MCP. */

export interface McpAnswer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests read responses of every shape
  body: any
}

export const eras = ['2026-07-28', '2025-11-25'] as const
export type Version = (typeof eras)[number]

const clientInfo = { name: 'test', version: '1.0.0' }
const envelope = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': clientInfo,
  'io.modelcontextprotocol/clientCapabilities': {},
}

/** A complete request of its era; parts of `params._meta` and `headers` can be overridden. */
export function makeMessage(version: Version, method: string, params: Record<string, unknown> = {}, id = 1) {
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': version,
  }
  if (version === '2025-11-25') return { headers, body: { jsonrpc: '2.0', id, method, params } }
  const name = params.name ?? params.uri ?? params.taskId
  headers['mcp-method'] = method
  if (typeof name === 'string') headers['mcp-name'] = name
  const _meta = { ...envelope, ...(params._meta as object) }
  return { headers, body: { jsonrpc: '2.0', id, method, params: { ...params, _meta } } }
}

export const initializeParams = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }

export async function post(
  app: TestService,
  token: string | undefined,
  { headers, body }: { headers: Record<string, string>; body: unknown },
): Promise<McpAnswer> {
  const response = await app.fetch('/mcp', {
    method: 'POST',
    headers: { ...headers, ...(token && { authorization: `Bearer ${token}` }) },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return readPageResponse(response)
}

/** The last event of a stream is the response. */
export async function readPageResponse(response: Response): Promise<McpAnswer> {
  const text = await response.text()
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream')
  const last = isStream ? (text.match(/^data: (.+)$/gm)?.at(-1) ?? '').slice('data: '.length) : text
  return { status: response.status, headers: response.headers, body: last === '' ? null : JSON.parse(last) }
}

export interface ToolAnswer {
  isError: boolean
  /** The structured content, or the envelope of an error. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read responses of every shape
  value: any
}

/** Calls a tool as a client of the newer era by default. */
export async function callTool(
  app: TestService,
  token: string,
  name: string,
  args: unknown = {},
  version: Version = '2026-07-28',
): Promise<ToolAnswer> {
  const { body } = await post(app, token, makeMessage(version, 'tools/call', { name, arguments: args }))
  if (body.error) throw new Error(JSON.stringify(body.error))
  const { isError = false, structuredContent, content } = body.result
  const text = JSON.parse(content[0].text)
  if (isError) return { isError, value: text }
  // Checked for every test: the text equals the structured content, which matches the output schema.
  expect(text).toEqual(structuredContent)
  const tool = tools.find((one) => one.name === name)
  expect(tool?.output?.safeParse(structuredContent).error?.issues, `${name} returns its output schema`).toBeUndefined()
  return { isError, value: structuredContent }
}
