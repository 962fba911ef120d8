import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import { clientId } from '../../../examples/client.ts'
import { hub } from '../../../examples/hub.ts'
import { startExampleProcesses } from '../example-processes.ts'
import { signInAtExample } from '../example-sign-in.ts'
import { useInstallation } from '../processes.ts'

test('an agent acts at a remote tool server as the person who asked: provider, Inlay, tool server and client apart', async () => {
  const { identityProviderUrl, toolServerUrl, stop } = await startExampleProcesses()
  onTestFinished(stop)
  const inlay = useInstallation()
  const server = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  const asAdmin = async (method: string, path: string, body?: unknown) => {
    const answer = await server.call(method, `/api${path}`, { token, body })
    expect(answer).toMatchObject({ status: 200 })
    return answer.body
  }
  await asAdmin('PATCH', '/identity-providers/config', {
    idp_type: 'custom_oidc',
    idp_issuer: identityProviderUrl,
    allowed_audiences: [clientId],
  })
  const connector = await asAdmin('POST', '/connectors', {
    name: 'orders',
    kind: 'id_jag',
    server_url: `${toolServerUrl}/mcp`,
    client_id: hub.clientId,
    client_secret: hub.secretAtToolServer,
    idp_client_id: hub.clientId,
    idp_client_secret: hub.secretAtIdentityProvider,
  })
  const { key } = await asAdmin('POST', '/publishable-keys', { name: 'Shop' })
  const connect = async (person: string) => {
    const body = { publishable_key: key, id_token: await signInAtExample(identityProviderUrl, person) }
    expect(await server.call('POST', '/api/auth/pk-ticket', { body })).toMatchObject({ status: 200 })
  }
  await connect('Demo Admin admin@demo.test')
  await connect('Demo Member member@demo.test')

  expect(await asAdmin('POST', `/connectors/${connector.id}/test`)).toMatchObject({
    success: true,
    steps: [{ status: 'ok' }, { status: 'ok' }, { status: 'ok' }, { status: 'ok', message: '2 tools' }],
  })

  const admin = await connectClient(server.url, token)
  const member = await connectClient(server.url, await inlay.token('member@demo.test', 'demo'))
  expect((await admin.call('hub_list_tools')).structuredContent).toMatchObject({
    count: 2,
    tools: [{ name: 'orders.list_orders' }, { name: 'orders.cancel_order' }],
  })
  const cancelled = await admin.call('hub_call_tool', { tool_name: 'orders.cancel_order', args: { order: '1042' } })
  expect(cancelled.content[0]).toMatchObject({ text: '{"cancelled":true}' })
  // Each has orders of their own there: nobody acts for anybody else.
  const ordersOf = async ({ call }: typeof admin) => {
    const { content } = await call('hub_call_tool', { tool_name: 'orders.list_orders' })
    return JSON.parse((content[0] as { text: string }).text).orders.map(({ status }: { status: string }) => status)
  }
  expect(await ordersOf(admin)).toEqual(['shipped', 'cancelled'])
  expect(await ordersOf(member)).toEqual(['shipped', 'open'])
})

async function connectClient(url: string, token: string) {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })
  const headers = { authorization: `Bearer ${token}` }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }))
  onTestFinished(() => client.close())
  return {
    call: (name: string, args: Record<string, unknown> = {}) => client.callTool({ name, arguments: args }),
  }
}
