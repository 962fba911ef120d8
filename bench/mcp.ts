// Measures how many tool calls per second one server process handles, with a token, a tenant and all nineteen tools,
// compared with plain node:http, and with MCP server libraries that have twenty tools and no authentication.
//
//   node bench/mcp.ts [--rounds=7] [--seconds=3] [--connections=32] [--only=<pattern>] [--profile=<folder>]
//
// load.ts explains the method. Clients use the protocol revision in the name, or else the newest that the server
// supports.

import { type Contender, compare, exampleAnswer, peer, postRequest, startInlay, variety } from './load.ts'

type Era = '2026-07-28' | '2025-11-25'

const clientInfo = { name: 'bench', version: '1.0.0' }
const envelope = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': clientInfo,
  'io.modelcontextprotocol/clientCapabilities': {},
}

/** A tool call, as clients of a protocol revision send it. */
function toolCall(era: Era, id: number, name: string, args: object, headers: Record<string, string> = {}): Buffer {
  const params = { name, arguments: args, ...(era === '2026-07-28' && { _meta: envelope }) }
  const modern = { 'mcp-method': 'tools/call', 'mcp-name': name }
  return postRequest('/mcp', JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params }), {
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': era,
    ...(era === '2026-07-28' && modern),
    ...headers,
  })
}

const repeat = (make: (index: number) => Buffer) => Array.from({ length: variety }, (_, index) => make(index))

const echoes = (era: Era, headers?: Record<string, string>) =>
  repeat((index) => toolCall(era, index, 'echo', { message: `Message number ${index}` }, headers))

async function startContenders(): Promise<Contender[]> {
  const { token, call, ...inlay } = await startInlay('inlay')
  const authorization = { authorization: `Bearer ${token}` }
  const echo = { name: 'Inlay, echo', ...inlay, requests: echoes('2026-07-28', authorization) }
  const legacy = { name: 'Inlay, echo, 2025-11-25', ...inlay, requests: echoes('2025-11-25', authorization) }
  const members = {
    name: 'Inlay, list_members',
    ...inlay,
    requests: repeat((index) => toolCall('2026-07-28', index, 'list_members', {}, authorization)),
  }
  const raw = await peer('./ticket-peers/raw-http.ts', await exampleAnswer(echo))
  const rawMembers = await peer('./ticket-peers/raw-http.ts', await exampleAnswer(members))
  const sdk2 = await peer('./mcp-peers/sdk-2.ts', '')
  const sdk1 = await peer('./mcp-peers/sdk-1.ts', '')
  const fastmcp = await peer('./mcp-peers/fastmcp.ts', '')
  return [
    { name: 'node:http, the bytes of echo', ...raw, requests: echo.requests },
    { name: 'node:http, the bytes of list_members', ...rawMembers, requests: members.requests },
    echo,
    legacy,
    members,
    { name: 'SDK 2.4, echo', ...sdk2, requests: echoes('2026-07-28') },
    { name: 'SDK 2.4, echo, 2025-11-25', ...sdk2, requests: echoes('2025-11-25') },
    { name: 'SDK 1.32, echo', ...sdk1, requests: echoes('2025-11-25') },
    { name: 'fastmcp 4, echo', ...fastmcp, requests: echoes('2025-11-25') },
  ]
}

await compare(startContenders)
