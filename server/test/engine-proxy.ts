import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A proxy for the real Redis or PostgreSQL whose connections the test can cut. */
export interface EngineProxy {
  /** Address and port. */
  host: string
  /** For Redis. */
  url: string
  /** Closes every connection, and accepts no new ones until `restore`. */
  cut(): void
  restore(): void
  /** Drops every message to Redis subscribers until `restore`. The connections stay open. */
  mute(): void
  /** Resolves when the next message is dropped. */
  dropped(): Promise<void>
  /** Delivers messages to Redis subscribers only after `restore`. */
  hold(): void
}

export async function startEngineProxy(engineUrl: string): Promise<EngineProxy> {
  const { hostname, port, pathname, protocol } = new URL(engineUrl)
  const open = new Set<Socket>()
  let isCut = false
  let isMuted = false
  let held: (() => void)[] | undefined
  let tellDropped = (): void => undefined
  const server = createServer((socket) => {
    if (isCut) return void socket.destroy()
    const engine = protocol === 'unix:' ? connect(pathname) : connect(Number(port), hostname)
    let isSubscriber = false
    socket.on('data', (data) => {
      isSubscriber ||= data.includes('subscribe')
      engine.write(data)
    })
    engine.on('data', (data) => {
      if (isSubscriber && held) held.push(() => socket.write(data))
      else if (isMuted && isSubscriber) tellDropped()
      else socket.write(data)
    })
    for (const end of [socket, engine]) {
      open.add(end)
      end.on('error', () => undefined)
      end.on('close', () => {
        open.delete(end)
        for (const other of [socket, engine]) other.destroy()
      })
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    host,
    url: `redis://${host}`,
    cut() {
      isCut = true
      for (const socket of open) socket.destroy()
    },
    restore() {
      isCut = false
      isMuted = false
      for (const deliver of held ?? []) deliver()
      held = undefined
    },
    mute() {
      isMuted = true
    },
    dropped: () =>
      new Promise((resolve) => {
        tellDropped = resolve
      }),
    hold() {
      held = []
    },
  }
}
