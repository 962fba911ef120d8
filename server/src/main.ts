import type { Server } from 'node:http'
import { type AddressInfo, Server as NetServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { serverUrlKey } from './access/access-tokens.ts'
import { builtInNames } from './api.ts'
import { type App, createApp } from './app.ts'
import { type Capabilities, createCapabilities } from './capabilities.ts'
import type { Config } from './config/config.ts'
import { isSeeded, seedDemo } from './demo/demo.ts'
import { createService } from './foundation/service.ts'
import { createHttpServer, jsonHeaders } from './http/connections.ts'
import { type Clock, systemClock } from './lib/clock.ts'
import { serviceUnavailable } from './lib/errors.ts'
import { createLog, type Log } from './lib/log.ts'
import { keepTicksFast } from './net/fast-ticks.ts'
import { listen } from './net/listen.ts'
import { createSetupLink } from './setup/setup.ts'
import { openStores } from './stores/stores.ts'
import { seedDemoUsage } from './usage/demo-usage.ts'

export interface RunningServer {
  url: string
  /** The one that is listened on; a public URL has another one in front of it. */
  port: number
  service: Capabilities
  /** For the first administrator of a production installation that has none. */
  setupLink: string | undefined
  /** Answers the requests that are under way or still arrive, then closes the stores. */
  stop(): Promise<void>
}

export interface StartOptions {
  clock?: Clock
  log?: Log
  onProgress?: (text: string) => void
}

const drainMs = 10_000
const farewellMs = 250

/** config → listen → stores → app. Listening first tells at once that a port is taken, and which one was picked. */
export async function startServer(config: Config, options: StartOptions = {}): Promise<RunningServer> {
  const { clock = systemClock, log = createLog(config.logLevel), onProgress } = options
  keepTicksFast()
  let app: App | undefined
  const server = createHttpServer(
    {
      // Some clients offer to speak HTTP/2 in the same way, and mean a usual request.
      shouldUpgradeCallback: ({ headers }) => app !== undefined && headers.upgrade?.toLowerCase() === 'websocket',
    },
    (request, response) => {
      if (app) return app.listener(request, response)
      const body = JSON.stringify(serviceUnavailable('The server is starting').envelope)
      response.writeHead(503, { ...jsonHeaders, 'retry-after': '1' }).end(body)
    },
  )
  server.on('upgrade', (request, socket, head) => app?.upgrade(request, socket, head))
  const listeners = await listen(server, config.port, config.listen)
  const { port } = server.address() as AddressInfo
  const publicUrl = config.publicUrl ?? `http://localhost:${port}`

  const stores = await openStores(config, { clock, log, claim: 'own', ...(onProgress && { onProgress }) }).catch(
    (error) => {
      for (const listener of listeners) listener.close()
      throw error
    },
  )
  let service: Capabilities | undefined
  const stop = async () => {
    app?.drain()
    if (app) await delay(config.drainSeconds * 1000)
    await closeServer(server, listeners, app)
    await service?.close()
    await stores.close()
  }
  try {
    // With another secret than its predecessor's a server would come up and then fail every request.
    await stores.kv.get(serverUrlKey)
    service = await createCapabilities(
      createService(stores, { config: { ...config, publicUrl }, clock, log }),
      builtInNames,
    )
    if (config.mode === 'development' && !(await isSeeded(service))) {
      onProgress?.('Adding demo data')
      const { demo } = await seedDemo(service)
      await seedDemoUsage(service, demo)
    }
    const setupLink = config.mode === 'production' ? await createSetupLink(service) : undefined
    await stores.kv.set(serverUrlKey, publicUrl)
    app = await createApp(service)
    return { url: publicUrl, port, service, setupLink, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Lets requests finish, idle connections go, and cuts what has not ended in time. */
async function closeServer(server: Server, listeners: NetServer[], app: App | undefined): Promise<void> {
  // An HTTP server's own `close` cuts idle connections at once, and with them the requests that are on their way.
  const closed = Promise.all(
    listeners.map((listener) => new Promise((resolve) => NetServer.prototype.close.call(listener, resolve))),
  )
  // After that: a client whose connection ended before would be connecting again just now, and be reset.
  app?.endConnections()
  // Busy clients get a moment to learn from a response that they must go elsewhere.
  await Promise.race([closed, delay(farewellMs)])
  server.closeIdleConnections()
  const cut = setTimeout(() => server.closeAllConnections(), drainMs)
  await closed
  clearTimeout(cut)
}
