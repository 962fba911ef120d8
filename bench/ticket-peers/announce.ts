import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Listens, and sends the port and other details to the parent process. */
export function announce(server: Server, more: Record<string, unknown> = {}): void {
  // A client may wait for longer than the default of five seconds before it uses a connection again.
  server.keepAliveTimeout = 0
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port, ...more }))
  process.on('disconnect', () => process.exit())
}
