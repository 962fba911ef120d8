import { type AddressInfo, createServer, type Server } from 'node:net'

/**
 * Listens, and returns everything that now accepts connections for the server. `localhost` stands for both loopback
 * addresses: names resolve to either, and a server listens on one address only, so a second one hands its connections over.
 */
export async function listen(server: Server, port: number, host: string | undefined): Promise<Server[]> {
  if (host !== 'localhost') {
    await bind(server, port, host)
    return [server]
  }
  await bind(server, port, '127.0.0.1')
  // With the options that an HTTP server gives its own sockets.
  const second = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket))
  try {
    await bind(second, (server.address() as AddressInfo).port, '::1')
    return [server, second]
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT') return [server]
    await new Promise((resolve) => server.close(resolve))
    // A port that was picked may be free for one family only.
    if (port === 0) return listen(server, port, host)
    throw error
  }
}

const bind = (server: Server, port: number, host: string | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host }, () => resolve(void server.off('error', reject)))
  })
