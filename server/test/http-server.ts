import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { createHttpServer } from '../src/kernel/http/connections.ts'
import { startTestService, type TestService } from './harness.ts'

export interface HttpService extends TestService {
  /** The public URL. */
  url: string
  /** The local URL, which may differ from the public one. */
  local: string
  /** Number of open connections. */
  connections(): Promise<number>
}

/** A test service on a port, for tests that need real HTTP: cookies, redirects, third-party clients. */
export async function startHttpService(
  env: Record<string, string> = {},
  { slowReaderMs }: { slowReaderMs?: number } = {},
): Promise<HttpService> {
  let service: TestService | undefined
  const server = createHttpServer({}, (request, response) => service?.listener(request, response), slowReaderMs)
  const upgraded = new Set<Duplex>()
  server.on('upgrade', (request, socket, head) => {
    upgraded.add(socket)
    void service?.upgrade(request, socket, head)
  })
  await new Promise<void>((resolve) => server.listen(0, resolve))
  const local = `http://localhost:${(server.address() as AddressInfo).port}`
  service = await startTestService({ INLAY_PUBLIC_URL: local, ...env })
  const { close } = service
  return {
    ...service,
    url: service.service.config.publicUrl,
    local,
    connections: () =>
      new Promise((resolve, reject) =>
        server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
      ),
    async close() {
      server.closeAllConnections()
      for (const socket of upgraded) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
      await close()
    },
  }
}
