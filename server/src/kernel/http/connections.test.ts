import { once } from 'node:events'
import { request as sendRequest } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'

let app: HttpService
let token: string
beforeAll(async () => {
  app = await startHttpService({}, { slowReaderMs: 1_000 })
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const patience = { timeout: 30_000, interval: 20 }

function open(): Socket {
  const socket = connect(Number(new URL(app.local).port), 'localhost')
  socket.on('error', () => undefined)
  onTestFinished(() => void socket.destroy())
  return socket
}

const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`
const post = (path: string, body: string, headers = '') =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n${headers}\r\n${body}`

/** Returns everything that has arrived on a socket, as text. */
function receive(socket: Socket): () => string {
  let text = ''
  socket.setEncoding('latin1').on('data', (part: string) => {
    text += part
  })
  return () => text
}

const collectGarbage = () => {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}

const requestsInProgress = async () =>
  Number(/^inlay_http_requests_in_progress (\d+)/m.exec(await app.service.metrics.render())?.[1])

describe('pipelined requests', () => {
  test('are answered in order, to all kinds of routes', async () => {
    const socket = open()
    const text = receive(socket)
    const bearer = `Authorization: Bearer ${token}\r\n`
    const order = [
      [get('/healthz'), '{"status":"ok"}'],
      [post('/api/publishable-keys', '{"name":"first"}', bearer), '"name":"first"'],
      [get('/api/unknown'), 'GET /api/unknown'],
      [post('/api/publishable-keys', '{"name":"second"}', bearer), '"name":"second"'],
      [get('/api/users/me'), 'AUTH_REQUIRED'],
      [post('/mcp', '{"jsonrpc":"2.0","id":77,"method":"ping"}', bearer), '"id":77'],
      [get('/api/users/me', bearer), '"email":"admin@demo.test"'],
      [get('/oauth/jwks', 'Connection: close\r\n'), '"keys":['],
    ] as const
    socket.write(order.map(([sent]) => sent).join(''))
    await once(socket, 'close')
    const places = order.map(([, answer]) => text().indexOf(answer))
    expect(places, text()).toEqual(places.filter((place) => place >= 0).sort((one, other) => one - other))
    expect(text().match(/HTTP\/1\.1 \d+/g)).toHaveLength(order.length)
  })

  test('are all answered when they arrive in pieces, bodies included', async () => {
    const socket = open()
    const text = receive(socket)
    const bearer = `Authorization: Bearer ${token}\r\n`
    const all = Array.from({ length: 30 }, (_, index) =>
      index % 2 ? get(`/api/n${index}`) : post('/api/publishable-keys', `{"name":"piece ${index}"}`, bearer),
    ).join('')
    const size = 1 + Math.floor(all.length / 23)
    for (let start = 0; start < all.length; start += size) {
      socket.write(all.slice(start, start + size))
      await new Promise(setImmediate)
    }
    await vi.waitFor(() => expect(text().match(/HTTP\/1\.1 \d+/g)).toHaveLength(30), patience)
    expect(text().match(/"name":"piece \d+"|GET \/api\/n\d+/g)).toEqual(
      Array.from({ length: 30 }, (_, index) => (index % 2 ? `GET /api/n${index}` : `"name":"piece ${index}"`)),
    )
  })

  test('are not read while earlier ones wait', async () => {
    const socket = open().pause()
    // The responses stay unread. Bodies and large responses are included because they make Node resume a connection.
    socket.write(get('/api/spec.json').repeat(100))
    const piece = post('/api/auth/pk-ticket', '{"publishable_key":"x"}').repeat(1_000)
    let taken = 0
    for (let count = 0; count < 200; count++) socket.write(piece, (error) => void (error || taken++))
    await vi.waitFor(async () => expect(await app.connections()).toBe(1), patience)
    await closed()
    expect(taken, 'no more than fits into the system’s buffers').toBeLessThan(100)
  })

  test('use little memory while the client does not read the responses', async () => {
    const before = usedMemory()
    const sockets = Array.from({ length: 12 }, () => open().pause())
    for (const socket of sockets) socket.write(get('/api/spec.json').repeat(1_500))
    // The server has accepted each, and may have given up on some already.
    await Promise.all(
      sockets.map((socket) => new Promise((resolve) => socket.once('readable', resolve).once('close', resolve))),
    )
    let most = 0
    await vi.waitFor(async () => {
      most = Math.max(most, usedMemory())
      expect(await app.connections()).toBe(0)
    }, patience)
    expect(most - before).toBeLessThan(sockets.length * 4 * 2 ** 20)
  })

  test('with a token run one at a time per connection, so that others can use the database', async () => {
    const bearer = `Authorization: Bearer ${token}\r\n`
    const texts = Array.from({ length: 20 }, () => {
      const socket = open()
      socket.write(get('/api/publishable-keys', bearer).repeat(50))
      return receive(socket)
    })
    let most = 0
    for (const text of texts) {
      await vi.waitFor(async () => {
        most = Math.max(most, await requestsInProgress())
        expect(text().match(/HTTP\/1\.1 200/g)).toHaveLength(50)
      }, patience)
    }
    expect(most).toBeLessThanOrEqual(texts.length)
    expect(app.logged()).not.toContain('"level":50')
  })

  test('end with the connection', async () => {
    const socket = open()
    socket.write(get('/api/users/me', 'Connection: close\r\n') + get('/healthz'))
    const text = receive(socket)
    await once(socket, 'close')
    expect(text().match(/HTTP\/1\.1 \d+/g)).toHaveLength(1)
    expect(await requestsInProgress()).toBe(0)
  })

  test('are not followed by a socket of the runtime', async () => {
    const socket = open()
    const text = receive(socket)
    socket.write(
      get('/api/spec.json').repeat(3) +
        get('/runtime', 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: inlay.v1\r\n'),
    )
    await once(socket, 'close')
    expect(text()).not.toContain('INVALID_TICKET')
  })
})

function usedMemory(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** Waits until the server has closed every connection. */
const closed = () => vi.waitFor(async () => expect(await app.connections()).toBe(0), patience)

describe('a client that does not read', () => {
  test('is disconnected', async () => {
    open().pause().write(get('/api/spec.json').repeat(200))
    await vi.waitFor(async () => expect(await app.connections()).toBe(1), patience)
    await closed()
    expect(await requestsInProgress()).toBe(0)
  })

  test('is not confused with one that waits for its response', async () => {
    const locked = await lockKeys()
    const socket = open()
    const text = receive(socket)
    socket.write(get('/api/publishable-keys', `Authorization: Bearer ${token}\r\n`))
    await vi.waitFor(async () => expect(await requestsInProgress()).toBe(1), patience)
    // Another client that sends later is disconnected first.
    open().pause().write(get('/api/spec.json').repeat(200))
    await vi.waitFor(async () => expect(await app.connections()).toBe(2), patience)
    await vi.waitFor(async () => expect(await app.connections()).toBe(1), patience)
    await locked.release()
    await vi.waitFor(() => expect(text()).toContain('HTTP/1.1 200'), patience)
  })
})

/** Makes requests for publishable keys wait. */
async function lockKeys(): Promise<{ release(): Promise<void> }> {
  const { default: pg } = await import('pg')
  const owner = new pg.Client(app.stores.owner)
  await owner.connect()
  await owner.query('begin; lock table publishable_keys in access exclusive mode')
  return {
    async release() {
      await owner.query('rollback')
      await owner.end()
    },
  }
}

test('a chunked body over the limit is rejected while it arrives', async () => {
  const sent = sendRequest(`${app.local}/api/auth/pk-ticket`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'transfer-encoding': 'chunked' },
  })
  sent.write('x'.repeat(30_000))
  const [response] = await once(sent, 'response')
  expect(response.statusCode).toBe(413)
  sent.destroy()
})

describe('a body with a declared length over the limit', () => {
  const head = (length: number) =>
    `POST /api/auth/pk-ticket HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`

  test('by a little is read to its end, so that the client gets the error and can continue', async () => {
    const socket = open()
    const text = receive(socket)
    const length = 100_000
    socket.write(head(length) + 'x'.repeat(length) + get('/healthz', 'Connection: close\r\n'))
    await once(socket, 'close')
    expect(text().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200'])
  })

  test('by far closes its connection without being read', async () => {
    const socket = open()
    const text = receive(socket)
    socket.write(head(1_000_000))
    await once(socket, 'close')
    expect(text()).toContain('HTTP/1.1 413')
    expect(text()).toContain('PAYLOAD_TOO_LARGE')
  })
})
