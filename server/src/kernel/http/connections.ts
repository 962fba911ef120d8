import { isUtf8 } from 'node:buffer'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { HttpBindings } from '@hono/node-server'
import { invalid, payloadTooLarge } from '../lib/errors.ts'
import { createTurnBatch } from '../lib/turn-batch.ts'

/**
 * How far a body may exceed its limit and still be read to its end, because a client that sends its whole body first
 * only sees the response then. For a larger body the connection is closed instead, because reading it costs CPU time.
 */
const toleratedExcess = 256 * 1024

/**
 * Reads the body as text. Rejects a body over the limit before reading it if its length is declared, or else while
 * reading.
 */
export function readText(request: IncomingMessage, limit: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const declared = Number(request.headers['content-length'])
    if (declared > limit) return reject(payloadTooLarge(limit, declared > limit + toleratedExcess))
    const chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= limit) chunks.push(chunk)
      else {
        chunks.length = 0
        reject(payloadTooLarge(limit))
        if (size > limit + toleratedExcess) request.destroy()
      }
    })
    request.on('end', () => {
      const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)
      if (isUtf8(bytes)) resolve(bytes.toString())
      else reject(invalid('', 'The body is not valid UTF-8'))
    })
    // The client has disconnected and never sees this error; it only ends the wait.
    request.on('error', () => reject(invalid('', 'The connection closed before the body was complete')))
  })
}

export const isJson = (type = ''): boolean => type === 'application/json' || /^application\/json\s*(;|$)/i.test(type)

export const jsonHeaders = { 'content-type': 'application/json', 'cache-control': 'no-store' }

const unsent = createTurnBatch<{ response: ServerResponse; body: string; isPlain: boolean }>((answers) => {
  // ASCII text doesn't need to be encoded, so Latin-1 is faster.
  for (const { response, body, isPlain } of answers) response.end(body, isPlain ? 'latin1' : 'utf8')
})

/**
 * Sends a complete JSON response. Adds its headers to `headers` in place, because that object belongs to the request.
 * The responses of one turn of the event loop are written together at its end, because each write wakes its reader.
 */
export function sendJson(
  response: ServerResponse,
  status: number,
  headers: Record<string, string | number>,
  body: string,
): void {
  const size = Buffer.byteLength(body)
  headers['content-type'] = jsonHeaders['content-type']
  headers['cache-control'] = jsonHeaders['cache-control']
  headers['content-length'] = size
  response.writeHead(status, headers)
  unsent.add({ response, body, isPlain: size === body.length })
}

/** Tells Hono that the response was sent without it; the status is for the log. */
export const alreadySent = (status: number): Response =>
  new Response(null, { status, headers: { 'x-hono-already-sent': 'true' } })

/** Sends bytes that all responses share. Hono would copy them for each response and keep the copy until it is read. */
export function sendShared(
  { env, res }: { env: HttpBindings; res: Response },
  bytes: Buffer,
  headers: Record<string, string>,
): Response {
  env.outgoing.writeHead(200, { ...Object.fromEntries(res.headers), ...headers, 'content-length': bytes.length })
  env.outgoing.end(bytes)
  return alreadySent(200)
}

/** How long a client may leave a response unread before its connection is closed. */
const slowReaderMs = 30_000

/** Timeouts that disconnect clients that send slowly, read slowly or keep connections idle. */
const connectionLimits = {
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: 2_000,
}

/** Creates an HTTP server with these limits. `timeout` is for tests. */
export function createHttpServer(options: ServerOptions, listener: RequestListener, timeout = slowReaderMs): Server {
  const server = createServer({ ...connectionLimits, ...options }, listener)
  server.timeout = timeout
  // Fires after a time without reads or writes. A request may take that long to process, but not a response to be read.
  server.on('timeout', (socket: Socket) => {
    if (!currentResponse(socket) || socket.writableLength > 0) socket.destroy()
  })
  return server
}

/** The response that Node is sending on a connection, or will send next. */
const currentResponse = (socket: Duplex): ServerResponse | undefined =>
  (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined

/** Whether a connection still has responses to send. */
export const isAnswering = (socket: Duplex): boolean => currentResponse(socket) !== undefined

/** Maximum number of pipelined requests that wait on all connections together: about 70 MB of memory. */
const mostWaiting = 20_000
/** Number of requests that may wait on a connection regardless of the others. */
const alwaysAccepted = 16

type Serve = (request: IncomingMessage, response: ServerResponse) => Promise<void>

interface Connection {
  socket: Socket
  /** The response that is being prepared. */
  answer: ServerResponse | undefined
  /** Pipelined requests that wait for the responses before theirs, in order. */
  waiting: { request: IncomingMessage; response: ServerResponse }[]
}

/**
 * Serves the requests of each connection one at a time. Node parses a whole read of 64 KB, about 1,500 requests, so
 * pipelined requests wait here, and the socket isn't read until all of them have a response. A request without others
 * before it, the usual case, is served at once.
 *
 * The map has one entry per connection, not per request: a set that every request enters and leaves would promote
 * garbage to the old generation (see `kernel/lib/passing-map.ts`), which took up to a fifth of the server's time.
 */
export class Connections {
  readonly #serve: Serve
  readonly #bySocket = new Map<Socket, Connection>()
  #waiting = 0
  #isClosing = false

  constructor(serve: Serve) {
    this.#serve = serve
  }

  /** For `http.createServer`. */
  receive(request: IncomingMessage, response: ServerResponse): Promise<void> | undefined {
    const { socket } = request
    const connection = this.#bySocket.get(socket) ?? this.#add(socket)
    // Node assigns the socket to one response at a time.
    if (response.socket) return this.#answer(connection, request, response)
    this.#wait(connection, request, response)
  }

  #add(socket: Socket): Connection {
    const connection: Connection = { socket, answer: undefined, waiting: [] }
    this.#bySocket.set(socket, connection)
    socket.once('close', () => {
      this.#waiting -= connection.waiting.length
      connection.waiting = []
      this.#bySocket.delete(socket)
    })
    return connection
  }

  async #answer(connection: Connection, request: IncomingMessage, response: ServerResponse): Promise<void> {
    connection.answer = response
    if (this.#isClosing) announceClose(connection)
    await this.#serve(request, response)
    if (connection.answer === response) connection.answer = undefined
  }

  #wait(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    const { socket, waiting } = connection
    if (socket.destroyed) return
    if (this.#waiting >= mostWaiting && waiting.length >= alwaysAccepted) {
      socket.destroy()
      return
    }
    this.#waiting += 1
    if (waiting.push({ request, response }) > 1) return
    socket.pause()
    // Node resumes the socket whenever a body is read or a large response has been sent.
    socket.on('resume', pauseAgain)
    currentResponse(socket)?.once('close', () => this.#serveNext(connection))
  }

  #serveNext(connection: Connection): void {
    const { socket, waiting } = connection
    // No response can follow one that closes the connection.
    if (socket.destroyed || socket.writableEnded) return
    const next = waiting.shift()
    if (!next) return
    this.#waiting -= 1
    if (waiting.length > 0) next.response.once('close', () => this.#serveNext(connection))
    else {
      socket.off('resume', pauseAgain)
      socket.resume()
    }
    void this.#answer(connection, next.request, next.response)
  }

  /** Closes each connection with its last pending response, because the server won't accept another request. */
  close(): void {
    this.#isClosing = true
    for (const connection of this.#bySocket.values()) announceClose(connection)
  }
}

function pauseAgain(this: Socket): void {
  this.pause()
}

function announceClose({ answer, waiting }: Connection): void {
  if (answer && !answer.headersSent && waiting.length === 0) answer.setHeader('connection', 'close')
}

export interface Address {
  path: string
  query: string
}

/** Splits a request's address into path and query. Some clients send it with scheme and host. */
export function splitAddress(address: string): Address {
  const local = address.startsWith('/') ? address : address.replace(/^[a-z]+:\/\/[^/?]*/i, '')
  const mark = local.indexOf('?')
  return mark < 0 ? { path: local, query: '' } : { path: local.slice(0, mark), query: local.slice(mark + 1) }
}
