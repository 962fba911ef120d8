import type { RequestListener } from 'node:http'
import { send } from '../../tool-server/src/node.ts'
import { createTransactionVerifier, type TransactionVerifierOptions } from '../../tool-server/src/transaction-tokens.ts'

/** Every user starts with these orders. */
const firstOrders = [
  { id: '1041', item: 'Enamel mug', status: 'shipped' },
  { id: '1042', item: 'Wool blanket', status: 'open' },
]

/** A service behind the tool server. It only accepts transaction tokens, not the hub's access tokens. */
export function createOrders(options: TransactionVerifierOptions): RequestListener {
  const transactions = createTransactionVerifier(options)
  const ordersOf = new Map<string, typeof firstOrders>()

  return async (request, response) => {
    const operation = operations[`${request.method} ${request.url}`]
    if (!operation) return void response.writeHead(404).end()
    const verified = await transactions.verify(request, operation)
    if (!verified.ok) return send(response, verified.answer)
    const { subject, context } = verified.transaction
    const orders = ordersOf.get(subject) ?? structuredClone(firstOrders)
    ordersOf.set(subject, orders)
    const body = operation === 'orders.list' ? { orders } : cancel(orders, context.order)
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }
}

const operations: Record<string, string> = { 'GET /orders': 'orders.list', 'POST /orders/cancel': 'orders.cancel' }

function cancel(orders: typeof firstOrders, id: unknown): { cancelled: boolean } {
  const order = orders.find((each) => each.id === id && each.status === 'open')
  if (order) order.status = 'cancelled'
  return { cancelled: order !== undefined }
}
