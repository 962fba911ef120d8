import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** The real Redis, behind a connection that the test can cut. */
export interface RedisProxy {
  url: string
  /** Ends every connection, and accepts no new ones until `restore`. */
  cut(): void
  restore(): void
}

export async function startRedisProxy(redisUrl: string): Promise<RedisProxy> {
  const { hostname, port, pathname, protocol } = new URL(redisUrl)
  const open = new Set<Socket>()
  let isCut = false
  const server = createServer((socket) => {
    if (isCut) return void socket.destroy()
    const redis = protocol === 'unix:' ? connect(pathname) : connect(Number(port), hostname)
    socket.pipe(redis).pipe(socket)
    for (const end of [socket, redis]) {
      open.add(end)
      end.on('error', () => undefined)
      end.on('close', () => {
        open.delete(end)
        for (const other of [socket, redis]) other.destroy()
      })
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut() {
      isCut = true
      for (const socket of open) socket.destroy()
    },
    restore() {
      isCut = false
    },
  }
}
