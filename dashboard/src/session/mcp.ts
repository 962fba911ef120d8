import { ApiError } from './api.ts'
import { authorizedFetch } from './session.ts'

const version = '2026-07-28'
const url = `${location.origin}/mcp`

/** Header values are ASCII. Other names are sent as base64. */
function headerValue(text: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text
  return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(text)))}?=`
}

let lastId = 0

/** Sends one request to the server's MCP endpoint, as the signed-in user. Each request is self-contained. */
async function sendMcp(
  method: string,
  params: Record<string, unknown>,
  signal?: AbortSignal,
): Promise<Record<string, unknown>> {
  lastId += 1
  const body = {
    jsonrpc: '2.0',
    id: lastId,
    method,
    params: {
      ...params,
      _meta: {
        'io.modelcontextprotocol/protocolVersion': version,
        'io.modelcontextprotocol/clientCapabilities': {},
        'io.modelcontextprotocol/clientInfo': { name: 'inlay-dashboard', title: 'Inlay dashboard', version: '1' },
      },
    },
  }
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': version,
    'mcp-method': method,
    ...(typeof params.name === 'string' && { 'mcp-name': headerValue(params.name) }),
  }
  const response = await authorizedFetch(
    new Request(url, { method: 'POST', headers, body: JSON.stringify(body), ...(signal && { signal }) }),
  )
  const answer = await response.json()
  const refusal = answer.error?.data?.message ? answer.error.data : answer.error
  // What stands before the endpoint, such as a proxy, doesn't answer in its protocol.
  if (refusal || !response.ok) throw new ApiError(response, refusal ?? answer)
  return answer.result
}

export interface McpTool {
  name: string
  title?: string
  description?: string
}

export async function listMcpTools(signal: AbortSignal): Promise<McpTool[]> {
  const { tools } = await sendMcp('tools/list', {}, signal)
  return tools as McpTool[]
}

export interface McpResult {
  content: { type: string; [key: string]: unknown }[]
  structuredContent?: unknown
  isError?: boolean
}

export const callMcpTool = (name: string, args: Record<string, unknown>, signal: AbortSignal): Promise<McpResult> =>
  sendMcp('tools/call', { name, arguments: args }, signal) as Promise<unknown> as Promise<McpResult>
