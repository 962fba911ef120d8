import { once } from 'node:events'
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createHttpServer } from './connections.ts'
import { sendLines } from './row-formats.ts'

/** A server that responds with endless lines, and a promise that resolves when their source is stopped. */
async function serveEndlessLines(timeoutMs: number) {
  let pages = 0
  const stopped = Promise.withResolvers<void>()
  async function* endless(): AsyncGenerator<string[]> {
    try {
      for (;;) {
        pages += 1
        yield ['x'.repeat(64 * 1024)]
      }
    } finally {
      stopped.resolve()
    }
  }
  const server = createHttpServer({}, (_, response) => void sendLines(endless(), response, {}), timeoutMs)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  return { port: (server.address() as AddressInfo).port, stopped: stopped.promise, pages: () => pages }
}

test('lines are not produced while the client doesn’t read, and such a client is disconnected', async () => {
  const { port, stopped, pages } = await serveEndlessLines(300)
  const socket = connect(port, '127.0.0.1').pause()
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => undefined)
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await stopped
  // The system's buffers hold a few MiB.
  expect(pages()).toBeLessThan(1_000)
})

test('lines stop when the client disconnects', async () => {
  const { port, stopped } = await serveEndlessLines(30_000)
  const asking = request({ port, host: '127.0.0.1' }).end()
  asking.on('error', () => undefined)
  const [response] = await once(asking, 'response')
  await once(response, 'data')
  asking.destroy()
  await stopped
})

test('a HEAD request gets no lines', async () => {
  const { port, pages } = await serveEndlessLines(30_000)
  const [response] = await once(request({ port, host: '127.0.0.1', method: 'HEAD' }).end(), 'response')
  expect(response.headers['content-type']).toBe('application/jsonl; charset=utf-8')
  await once(response.resume(), 'end')
  expect(pages()).toBe(0)
})
