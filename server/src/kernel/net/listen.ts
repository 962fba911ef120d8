import { type AddressInfo, createServer, type Server } from 'node:net'

/**
 * Listens, and returns every listener that accepts connections for the server. For `localhost` it listens on both
 * loopback addresses, because the name can resolve to either. A server can only listen on one address, so a second
 * server passes its connections on.
 */
export async function listen(server: Server, port: number, host: string | undefined): Promise<Server[]> {
  if (host !== 'localhost') {
    await bind(server, port, host)
    return [server]
  }
  await bind(server, port, '127.0.0.1')
  // The same options that an HTTP server uses for its own sockets.
  const second = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket))
  try {
    await bind(second, (server.address() as AddressInfo).port, '::1')
    return [server, second]
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT') return [server]
    await new Promise((resolve) => server.close(resolve))
    // A port that the system picked may be free for one address family only.
    if (port === 0) return listen(server, port, host)
    throw error
  }
}

const bind = (server: Server, port: number, host: string | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host }, () => resolve(void server.off('error', reject)))
  })
