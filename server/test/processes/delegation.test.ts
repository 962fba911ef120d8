import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import { introduceShop } from '../../../examples/introduction.ts'
import { startExampleProcesses } from '../example-processes.ts'
import { signInAtExample } from '../example-sign-in.ts'
import { useUsedInstallation } from '../processes.ts'

test('an agent acts at a remote tool server as the calling user, with provider, Inlay, tool server and client in separate processes', async () => {
  const { identityProviderUrl, toolServerUrl, stop } = await startExampleProcesses()
  onTestFinished(stop)
  const inlay = useUsedInstallation()
  const server = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  const asAdmin = async (method: string, path: string, body?: unknown) => {
    const answer = await server.call(method, `/api${path}`, { token, body })
    expect(answer).toMatchObject({ status: 200 })
    return answer.body
  }
  const shop = { shopUrl: 'https://shop.example.com', issuer: identityProviderUrl, toolServerUrl }
  const publishable_key = await introduceShop({ inlayUrl: server.url, token, ...shop })
  const [connector] = (await asAdmin('GET', '/connectors')).connectors
  const connect = async (person: string) => {
    const id_token = await signInAtExample(identityProviderUrl, person)
    const body = { publishable_key, id_token, embedding_origin: shop.shopUrl }
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
  const cancel = async () =>
    (await admin.call('hub_call_tool', { tool_name: 'orders.cancel_order', args: { order: '1042' } })).content[0]
  expect(await cancel(), 'no page is open to ask in').toMatchObject({
    text: expect.stringContaining('APPROVAL_NEEDED'),
  })
  await asAdmin('PATCH', `/connectors/${connector.id}`, { read_only_tools: ['cancel_order'] })
  expect(await cancel(), 'the administrator turned off approvals').toMatchObject({
    text: '{"cancelled":true}',
  })
  // Each user has their own orders there: no one acts for anyone else.
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
