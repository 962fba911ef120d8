import { randomUUID } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { type CallToolResult, createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { Hono } from 'hono'
import { z } from 'zod'
import { requireCaller, toolServerRoutes } from '../../tool-server/src/hono.ts'
import { scopesFor } from '../../tool-server/src/scopes.ts'
import { type Caller, createToolServer, toResponse } from '../../tool-server/src/tool-server.ts'
import {
  type createTransactionTokens,
  type TransactionRequest,
  transactionHeader,
} from '../../tool-server/src/transaction-tokens.ts'
import { hub } from '../hub.ts'

export interface ToolServerExampleOptions {
  url: string
  /** The identity provider of the company whose users use the tools. */
  issuer: string
  /** The service behind the tools. It accepts the tokens that `transactions` creates. */
  ordersUrl: string
  transactions: ReturnType<typeof createTransactionTokens>
}

type Operation = Omit<TransactionRequest, 'audience'>

/** Two tools for the user's orders. Users don't sign in here: the identity provider vouches for them. */
export function createToolServerExample(options: ToolServerExampleOptions): RequestListener {
  const { url, issuer, ordersUrl, transactions } = options
  const toolServer = createToolServer({
    resource: `${url}/mcp`,
    hubs: [{ clientId: hub.clientId, clientSecret: hub.secretAtToolServer, issuer }],
    // With a random secret, tokens become invalid when the process ends. Several processes need a shared secret.
    secrets: [randomUUID() + randomUUID()],
  })
  const mcp = createMcpHandler(({ authInfo }) => describeTools(authInfo?.extra?.caller as Caller))

  const app = new Hono()
  app.use(toolServerRoutes(toolServer))
  app.post('/mcp', requireCaller(toolServer), async ({ req: { raw } }) => {
    // Only servers call this endpoint, so requests from browsers are refused, whatever their origin.
    if (raw.headers.has('origin')) return new Response(null, { status: 403 })
    const parsedBody = await raw.json().catch(() => undefined)
    const verified = await toolServer.verify(raw, scopesFor(parsedBody))
    if (!verified.ok) return toResponse(verified.answer)
    const { caller } = verified
    const authInfo = { token: '', clientId: caller.clientId, scopes: caller.scopes, extra: { caller } }
    return mcp.fetch(raw, { parsedBody, authInfo })
  })
  app.all('/mcp', () => new Response(null, { status: 405, headers: { allow: 'POST' } }))

  function describeTools(caller: Caller): McpServer {
    const server = new McpServer({ name: 'example-orders', version: '1.0.0' })
    server.registerTool(
      'list_orders',
      {
        title: 'List orders',
        description: 'Lists the orders of the user',
        annotations: { readOnlyHint: true, openWorldHint: false },
      },
      () => askOrders('GET', '/orders', { operation: 'orders.list', caller }),
    )
    server.registerTool(
      'cancel_order',
      {
        title: 'Cancel an order',
        description: 'Cancels an order that has not been shipped',
        inputSchema: z.object({ order: z.string().max(20) }),
        annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
      },
      ({ order }) => askOrders('POST', '/orders/cancel', { operation: 'orders.cancel', caller, details: { order } }),
    )
    return server
  }

  /** Calls the service with a token for this operation only, instead of the hub's access token. */
  async function askOrders(method: string, path: string, transaction: Operation): Promise<CallToolResult> {
    const token = await transactions.mint({ audience: ordersUrl, ...transaction })
    const response = await fetch(`${ordersUrl}${path}`, { method, headers: { [transactionHeader]: token } })
    return { content: [{ type: 'text', text: await response.text() }], isError: !response.ok }
  }

  return getRequestListener(app.fetch)
}
