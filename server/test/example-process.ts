import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { JWK } from 'jose'
import { clientId } from '../../examples/client.ts'
import { hub } from '../../examples/hub.ts'
import { createIdentityProvider } from '../../examples/identity-provider/identity-provider.ts'
import { readAllowList } from '../../examples/identity-provider/token-exchange.ts'
import { createOrders } from '../../examples/tool-server/orders.ts'
import { createToolServerExample } from '../../examples/tool-server/tool-server.ts'
import { createTransactionTokens } from '../../tool-server/src/transaction-tokens.ts'
import { redirectUri } from './example-sign-in.ts'

/** Runs one of the examples as a process. It sends its URL, receives the other example's URL, and then serves. */
const part = process.argv[2]
let serve: RequestListener = (_, response) => response.writeHead(503).end()
const url = await listen((request, response) => serve(request, response))
process.send?.({ url })
const [other] = (await once(process, 'message')) as [{ url: string }]
serve = part === 'identity-provider' ? await identityProvider(other.url) : await toolServer(other.url)
process.send?.({ isReady: true })

async function identityProvider(toolServerUrl: string): Promise<RequestListener> {
  const client = { id: clientId, redirectUri }
  return createIdentityProvider(url, [client], {
    hub: { id: hub.clientId, secret: hub.secretAtIdentityProvider },
    allowed: await readAllowList(toolServerUrl),
  })
}

async function toolServer(issuer: string): Promise<RequestListener> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const transactions = createTransactionTokens({ issuer: url, key: privateKey.export({ format: 'jwk' }) as JWK })
  const jwks = await transactions.jwks()
  let orders: RequestListener = (_, response) => response.writeHead(503).end()
  const ordersUrl = await listen((request, response) => orders(request, response))
  orders = createOrders({ issuer: url, audience: ordersUrl, jwks })
  return createToolServerExample({ url, issuer, ordersUrl, transactions })
}

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve))
  return `http://localhost:${(server.address() as AddressInfo).port}`
}
