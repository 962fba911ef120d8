import type { Server } from 'node:http'
import { type AddressInfo, Server as NetServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { serverUrlKey } from './accounts/access/access-tokens.ts'
import { createSetupLink } from './accounts/setup/setup.ts'
import { builtInNames } from './api.ts'
import { type App, createApp } from './app.ts'
import { type Capabilities, createCapabilities } from './capabilities.ts'
import { isSeeded, seedDemo } from './console/demo/demo.ts'
import type { Config } from './kernel/config/config.ts'
import { createService } from './kernel/foundation/service.ts'
import { createHttpServer, jsonHeaders } from './kernel/http/connections.ts'
import { type Clock, systemClock } from './kernel/lib/clock.ts'
import { serviceUnavailable } from './kernel/lib/errors.ts'
import { createLog, type Log } from './kernel/lib/log.ts'
import { keepTicksFast } from './kernel/net/fast-ticks.ts'
import { listen } from './kernel/net/listen.ts'
import { keepPartitions } from './kernel/stores/postgres/partitions.ts'
import { keepTablesAnalyzed } from './kernel/stores/postgres/table-statistics.ts'
import { keepRetention } from './kernel/stores/retention.ts'
import { openStores } from './kernel/stores/stores.ts'
import { seedDemoUsage } from './plans/usage/demo-usage.ts'

export interface RunningServer {
  url: string
  /** Port that the server listens on; behind a proxy, the public URL has another one. */
  port: number
  service: Capabilities
  /** Set in production while no user exists. */
  setupLink: string | undefined
  /** Finishes requests that are in flight or still arrive, then closes the stores. */
  stop(): Promise<void>
}

export interface StartOptions {
  clock?: Clock
  log?: Log
  onProgress?: (text: string) => void
}

const drainMs = 10_000
const farewellMs = 250

/** config → listen → stores → app. Listening first reports a taken port at once, and determines a picked one. */
export async function startServer(config: Config, options: StartOptions = {}): Promise<RunningServer> {
  const { clock = systemClock, log = createLog(config.logLevel), onProgress } = options
  keepTicksFast()
  let app: App | undefined
  const server = createHttpServer(
    {
      // Some clients also send `Upgrade: h2c` on ordinary requests; it is ignored.
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
  const maintenance = [
    keepTablesAnalyzed(stores, log),
    keepPartitions(stores, { clock, log }),
    keepRetention(stores, { clock, log, config }),
  ]
  let service: Capabilities | undefined
  const stop = async () => {
    app?.drain()
    if (app) await delay(config.drainSeconds * 1000)
    await closeServer(server, listeners, app)
    await service?.close()
    for (const each of maintenance) await each.close()
    await stores.close()
  }
  try {
    // Fails the start if the secret is wrong; otherwise the server would start and then fail every request.
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

/** Lets requests finish, closes idle connections, and cuts off connections that don't end in time. */
async function closeServer(server: Server, listeners: NetServer[], app: App | undefined): Promise<void> {
  // `http.Server.close` drops idle connections immediately, and with them requests that are already on the wire.
  const closed = Promise.all(
    listeners.map((listener) => new Promise((resolve) => NetServer.prototype.close.call(listener, resolve))),
  )
  // Only after listening has stopped: a client whose connection ends earlier would reconnect here and be reset.
  app?.endConnections()
  // Gives busy clients a moment to receive `Connection: close` with a response.
  await Promise.race([closed, delay(farewellMs)])
  server.closeIdleConnections()
  const cut = setTimeout(() => server.closeAllConnections(), drainMs)
  await closed
  clearTimeout(cut)
}
