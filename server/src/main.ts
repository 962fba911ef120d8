import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { type App, createApp } from './app.ts'
import type { Config } from './config.ts'
import { isSeeded, seedDemo } from './demo/demo.ts'
import { type Clock, systemClock } from './lib/clock.ts'
import { createLog, type Log } from './lib/log.ts'
import { createSafeFetch } from './lib/safe-fetch.ts'
import type { Service } from './service.ts'
import { createSetupLink } from './setup/setup.ts'
import { openStores } from './stores/stores.ts'

export interface RunningServer {
  url: string
  service: Service
  /** For the first administrator of a production installation that has none. */
  setupLink: string | undefined
  /** Answers what is under way, then closes the stores. */
  stop(): Promise<void>
}

export interface StartOptions {
  clock?: Clock
  log?: Log
  onProgress?: (text: string) => void
}

/** Where the command line finds out for which address its tokens must be. */
export const serverUrlKey = 'server-url'

const drainMs = 10_000

/** config → listen → stores → app. Listening first tells at once that a port is taken, and which one was picked. */
export async function startServer(config: Config, options: StartOptions = {}): Promise<RunningServer> {
  const { clock = systemClock, log = createLog(config.logLevel), onProgress } = options
  let app: App | undefined
  const starting = () => new Response('Starting', { status: 503, headers: { 'retry-after': '1' } })
  const listener = getRequestListener((request, env) => app?.fetch(request, env) ?? starting())
  // The limits cut off clients that send slowly or keep connections for nothing.
  const server = createServer(
    { headersTimeout: 10_000, requestTimeout: 15_000, keepAliveTimeout: 5_000, connectionsCheckingInterval: 2_000 },
    listener,
  )
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(config.port, resolve)
  })
  const { port } = server.address() as AddressInfo
  const publicUrl = config.publicUrl ?? `http://localhost:${port}`

  const stores = await openStores(config, { clock, log, claim: 'own', ...(onProgress && { onProgress }) }).catch(
    (error) => {
      server.close()
      throw error
    },
  )
  const safeFetch = createSafeFetch({ allowedPrivateNetworks: config.allowedPrivateNetworks })
  const stop = async () => {
    app?.drain()
    await closeServer(server)
    await safeFetch.close()
    await stores.close()
  }
  try {
    const { database, kv, bus, secrets } = stores
    const service: Service = {
      database,
      kv,
      bus,
      secrets,
      clock,
      log,
      fetch: safeFetch,
      config: { ...config, publicUrl },
    }
    if (config.mode === 'development' && !(await isSeeded(service))) {
      onProgress?.('Adding demo data')
      await seedDemo(service)
    }
    const setupLink = config.mode === 'production' ? await createSetupLink(service) : undefined
    await kv.set(serverUrlKey, publicUrl)
    app = await createApp(service)
    return { url: publicUrl, service, setupLink, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Lets requests finish, idle connections go, and cuts what has not ended in time. */
async function closeServer(server: ReturnType<typeof createServer>): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeIdleConnections()
  const cut = setTimeout(() => server.closeAllConnections(), drainMs)
  await closed
  clearTimeout(cut)
}
