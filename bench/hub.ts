// Measures how many calls per second one server process carries from an MCP client through the hub and a socket to a
// page and back, compared with plain node:http and ws.
//
//   node bench/hub.ts [--rounds=7] [--seconds=3] [--connections=32] [--only=<pattern>] [--profile=<folder>]
//
// load.ts explains the method. Fifty pages, with one tool each, run in a separate process.

import { startTestProvider } from '../server/test/oidc-provider.ts'
import { type Contender, compare, peer, postRequest, startInlay, variety } from './load.ts'

const origin = 'https://shop.example.com'

const calls = (headers: Record<string, string> = {}) =>
  Array.from({ length: variety }, (_, id) => {
    const args = { item: `Item number ${id}`, count: id }
    const params = { name: 'hub_call_tool', arguments: { tool_name: `tool_${id}`, args } }
    return postRequest('/mcp', JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params }), {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
      ...headers,
    })
  })

const openPages = (port: number, exchange?: object) =>
  peer('./hub-peers/pages.ts', JSON.stringify({ port, count: variety, origin, exchange }))

async function startContenders(): Promise<Contender[]> {
  const provider = await startTestProvider()
  const { token, call, ...inlay } = await startInlay('inlay')
  const trust = { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] }
  await call('PATCH', '/identity-providers/config', trust)
  const { key } = await call<{ key: string }>('POST', '/publishable-keys', { name: 'Shop' })
  const id_token = await provider.idToken({ sub: 'admin', email: 'admin@demo.test', email_verified: true })
  await openPages(inlay.port, { publishable_key: key, id_token })
  await provider.stop()
  const bare = await peer('./hub-peers/bare.ts', '')
  await openPages(bare.port)
  return [
    { name: 'node:http and ws, nothing checked', ...bare, requests: calls() },
    { name: 'Inlay, MCP → hub → socket → back', ...inlay, requests: calls({ authorization: `Bearer ${token}` }) },
  ]
}

await compare(startContenders)
