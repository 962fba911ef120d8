import { onTestFinished } from 'vitest'
import { testSecret } from './engines/engines.ts'
import { makeConfig } from './harness.ts'
import { startTestProvider } from './oidc-provider.ts'
import { openPage, type Page, type PageOptions, pageOrigin } from './page.ts'
import { type ServerProcess, useInstallation } from './processes.ts'

/** Two server processes with one PostgreSQL and one Redis, as behind a load balancer. Needs the engines with Redis. */
export async function startNodes() {
  const { config, remove } = await makeConfig({}, 'demo', { inheritsGrants: true })
  const provider = await startTestProvider()
  onTestFinished(async () => {
    await provider.stop()
    await remove()
  })
  const settings = {
    DATABASE_URL: config.databaseUrl ?? '',
    REDIS_URL: config.redisUrl ?? '',
    INLAY_REDIS_PREFIX: config.redisPrefix,
    INLAY_SECRET: testSecret,
    INLAY_PUBLIC_URL: 'http://localhost:8787',
  }
  const installations = [useInstallation(settings), useInstallation(settings)] as const
  const one = await installations[0].start()
  const two = await installations[1].start()
  const admin = await installations[0].token('admin@demo.test', 'demo')
  const member = await installations[0].token('member@demo.test', 'demo')
  await one.call('PATCH', '/api/identity-providers/config', {
    token: admin,
    body: { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] },
  })
  const { body: key } = await one.call('POST', '/api/publishable-keys', { token: admin, body: { name: 'Shop' } })
  const id_token = await provider.idToken({ sub: 'mem', email: 'member@demo.test', email_verified: true })
  const ticket = async (node: ServerProcess) => {
    const body = { publishable_key: key.key, id_token, embedding_origin: pageOrigin }
    return (await node.call('POST', '/api/auth/pk-ticket', { body })).body.ticket as string
  }
  return {
    one,
    two,
    admin,
    ticket,
    page: async (node: ServerProcess, options?: PageOptions): Promise<Page> =>
      openPage(node.url, await ticket(node), options),
    revoke: (node: ServerProcess) => node.call('DELETE', `/api/publishable-keys/${key.id}`, { token: admin }),
    me: (node: ServerProcess) => mcpClient(node, member),
  }
}

/**
 * Measures the server's time in pings, one in 15 s, so that a slow machine slows both the clock and the measured work.
 */
export function countPings({ socket }: Page): () => number {
  let count = 0
  socket.on('ping', () => {
    count += 1
  })
  return () => count
}

/** A minimal MCP client. */
function mcpClient(node: ServerProcess, token: string) {
  const callTool = async (name: string, args: object, signal?: AbortSignal) => {
    const params = { name, arguments: args }
    const response = await fetch(`${node.url}/mcp`, {
      method: 'POST',
      ...(signal && { signal }),
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    })
    const text = await response.text()
    return JSON.parse(text.match(/^data: (.*)$/m)?.[1] ?? text).result
  }
  return {
    call: (tool_name: string, args: object = {}, signal?: AbortSignal) =>
      callTool('hub_call_tool', { tool_name, args }, signal),
    async sources(): Promise<string[]> {
      const { sources } = (await callTool('hub_list_sources', {})).structuredContent
      return sources.map(({ sourceId }: { sourceId: string }) => sourceId)
    },
    async openTabs(): Promise<unknown> {
      const headers = { authorization: `Bearer ${token}` }
      return (await fetch(`${node.url}/api/hub/open-tabs`, { headers })).json()
    },
  }
}
