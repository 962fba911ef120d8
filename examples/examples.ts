import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { clientId } from './client.ts'

export interface ExamplesOptions {
  /** Where the service is. */
  inlayUrl: string
  /** Of an administrator of the organization that the shop belongs to. */
  token(): Promise<string>
  /** The first of two neighbouring ports that they take when they are free. Without it, any. */
  port?: number
}

export interface Examples {
  shopUrl: string
  stop(): void
}

/**
 * The example shop and its identity provider. Each only listens until somebody comes: what they need is loaded then, and
 * the organization is told of them then, as an administrator would do it.
 */
export async function startExamples({ inlayUrl, token, port = 0 }: ExamplesOptions): Promise<Examples> {
  const shop = await listen(port, lazy(openShop))
  const identityProvider = await listen(port && port + 1, lazy(openIdentityProvider))

  async function openIdentityProvider(): Promise<RequestListener> {
    const { createIdentityProvider } = await import('./identity-provider/identity-provider.ts')
    return createIdentityProvider(identityProvider.url, { id: clientId, redirectUri: `${shop.url}/callback` })
  }

  async function openShop(): Promise<RequestListener> {
    const { createShop } = await import('./host-page/shop.ts')
    const { introduceShop } = await import('./introduction.ts')
    const publishableKey = await introduceShop({
      inlayUrl,
      token: await token(),
      shopUrl: shop.url,
      issuer: identityProvider.url,
    })
    return createShop({ url: shop.url, issuer: identityProvider.url, inlayUrl, publishableKey })
  }

  return {
    shopUrl: shop.url,
    stop() {
      for (const { server } of [shop, identityProvider]) {
        server.close()
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

/** On this computer only. */
async function listen(port: number, listener: RequestListener): Promise<{ server: Server; url: string }> {
  const server = createServer(listener)
  const attempt = (wanted: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(wanted, 'localhost', () => resolve(void server.off('error', reject)))
    })
  await attempt(port).catch(() => attempt(0))
  return { server, url: `http://localhost:${(server.address() as AddressInfo).port}` }
}
