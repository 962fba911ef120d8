import { generateKeyPairSync } from 'node:crypto'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { JWK } from 'jose'
import { clientId, frameClientId } from './client.ts'
import { hub } from './hub.ts'

export interface ExamplesOptions {
  inlayUrl: string
  /** Returns an access token of an administrator of the shop's organization. */
  token(): Promise<string>
  /** The first of four consecutive ports. An example whose port isn't free takes any other. Default: any ports. */
  port?: number
  /** Makes a server listen, and returns what to close. Default: listens on this computer only. */
  listen?(server: Server, port: number): Promise<{ close(): unknown }[]>
}

export interface Examples {
  shopUrl: string
  identityProviderUrl: string
  toolServerUrl: string
  /** The service behind the tool server. */
  ordersUrl: string
  stop(): void
}

/**
 * Starts the example shop, its identity provider, and a tool server with a service behind it. Each loads its code on
 * its first request. The shop then also registers itself in its organization, as an administrator would.
 */
export async function startExamples(options: ExamplesOptions): Promise<Examples> {
  const { inlayUrl, token, port = 0, listen = listenLocally } = options
  const shop = await serve(listen, port, lazy(openShop))
  const identityProvider = await serve(listen, port && port + 1, lazy(openIdentityProvider))
  const toolServer = await serve(listen, port && port + 2, lazy(openToolServer))
  const orders = await serve(listen, port && port + 3, lazy(openOrders))

  async function openIdentityProvider(): Promise<RequestListener> {
    const { createIdentityProvider } = await import('./identity-provider/identity-provider.ts')
    const { readAllowList } = await import('./identity-provider/token-exchange.ts')
    const client = { id: clientId, redirectUri: `${shop.url}/callback` }
    const { readConfirmRedirectUri } = await import('./introduction.ts')
    const redirectUri = await readConfirmRedirectUri({ inlayUrl, token: await token() })
    const frameClient = { id: frameClientId, redirectUri }
    const allowed = await readAllowList(toolServer.url)
    const delegation = { hub: { id: hub.clientId, secret: hub.secretAtIdentityProvider }, allowed }
    return createIdentityProvider(identityProvider.url, [client, frameClient], delegation)
  }

  let transactionTokens: ReturnType<typeof makeTransactionTokens> | undefined
  async function makeTransactionTokens() {
    const { createTransactionTokens } = await import('../tool-server/src/transaction-tokens.ts')
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    return createTransactionTokens({ issuer: toolServer.url, key: privateKey.export({ format: 'jwk' }) as JWK })
  }
  function transactions() {
    transactionTokens ??= makeTransactionTokens()
    return transactionTokens
  }

  async function openToolServer(): Promise<RequestListener> {
    const { createToolServerExample } = await import('./tool-server/tool-server.ts')
    return createToolServerExample({
      url: toolServer.url,
      issuer: identityProvider.url,
      ordersUrl: orders.url,
      transactions: await transactions(),
    })
  }

  async function openOrders(): Promise<RequestListener> {
    const { createOrders } = await import('./tool-server/orders.ts')
    const jwks = await (await transactions()).jwks()
    return createOrders({ issuer: toolServer.url, audience: orders.url, jwks })
  }

  async function openShop(): Promise<RequestListener> {
    const { createShop } = await import('./host-page/shop.ts')
    const { introduceShop } = await import('./introduction.ts')
    const publishableKey = await introduceShop({
      inlayUrl,
      token: await token(),
      shopUrl: shop.url,
      issuer: identityProvider.url,
      toolServerUrl: toolServer.url,
    })
    return createShop({ url: shop.url, issuer: identityProvider.url, inlayUrl, publishableKey })
  }

  return {
    shopUrl: shop.url,
    identityProviderUrl: identityProvider.url,
    toolServerUrl: toolServer.url,
    ordersUrl: orders.url,
    stop() {
      for (const { server, listeners } of [shop, identityProvider, toolServer, orders]) {
        for (const listener of listeners) listener.close()
        server.closeAllConnections()
      }
    },
  }
}

function lazy(open: () => Promise<RequestListener>): RequestListener {
  let opened: Promise<RequestListener> | undefined
  return async (request, response) => {
    try {
      opened ??= open()
      await (await opened)(request, response)
    } catch (error) {
      opened = undefined
      response.writeHead(500, { 'content-type': 'text/plain' }).end(`The example failed: ${(error as Error).message}\n`)
    }
  }
}

type Listen = NonNullable<ExamplesOptions['listen']>

async function serve(listen: Listen, port: number, listener: RequestListener) {
  const server = createServer(listener)
  const listeners = await listen(server, port).catch(() => listen(server, 0))
  return { server, listeners, url: `http://localhost:${(server.address() as AddressInfo).port}` }
}

const listenLocally: Listen = (server, port) =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, 'localhost', () => {
      server.off('error', reject)
      resolve([server])
    })
  })
