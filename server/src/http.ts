import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { invalid, payloadTooLarge } from './errors.ts'

export const bodyLimit = 1024 * 1024

/** The body as text. One that announces its length is refused before it arrives; any other is counted as it does. */
export function readText(request: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    if (Number(request.headers['content-length']) > bodyLimit) return reject(payloadTooLarge(bodyLimit))
    const chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > bodyLimit) reject(payloadTooLarge(bodyLimit))
      else chunks.push(chunk)
    })
    request.on('end', () => {
      const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)
      if (isUtf8(bytes)) resolve(bytes.toString())
      else reject(invalid('', 'The body is not valid UTF-8'))
    })
    // Nobody is left to read this; it only ends the wait.
    request.on('error', () => reject(invalid('', 'The connection ended before the body did')))
  })
}

export const isJson = (type = ''): boolean => type === 'application/json' || /^application\/json\s*(;|$)/i.test(type)

export const jsonHeaders = { 'content-type': 'application/json', 'cache-control': 'no-store' }

let unsent: { response: ServerResponse; body: string; isPlain: boolean }[] = []

function sendAll(): void {
  const answers = unsent
  unsent = []
  // Text without wide characters is written as it lies in memory.
  for (const { response, body, isPlain } of answers) response.end(body, isPlain ? 'latin1' : 'utf8')
}

/**
 * Answers in one piece. `headers` is the request's own object, so what JSON answers share is added in place. The answers of
 * one turn of the event loop leave together, after it: a write between other work wakes its reader, and costs more.
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
  if (unsent.length === 0) setImmediate(sendAll)
  unsent.push({ response, body, isPlain: size === body.length })
}

/**
 * The answers that clients wait for, by connection. A set that every request enters and leaves would let their garbage grow
 * old (`lib/passing-map.ts` says why), which took up to a fifth of the server's time.
 */
export class OpenAnswers {
  readonly #byConnection = new Map<Socket, Connection>()

  begin({ socket }: IncomingMessage, response: ServerResponse): Connection {
    const connection = this.#byConnection.get(socket) ?? this.#add(socket)
    connection.answer = response
    return connection
  }

  #add(socket: Socket): Connection {
    const connection = { answer: undefined }
    this.#byConnection.set(socket, connection)
    socket.once('close', () => this.#byConnection.delete(socket))
    return connection
  }

  /** A connection left open would carry its next request to a server that is gone. */
  closeConnections(): void {
    for (const { answer } of this.#byConnection.values()) {
      if (answer && !answer.headersSent) answer.setHeader('connection', 'close')
    }
  }
}

interface Connection {
  /** The latest: a client that sends the next request without waiting is told with the last answer. */
  answer: ServerResponse | undefined
}

/** The path of a request's address, which some clients send with scheme and host, and the query after it. */
export function splitAddress(address: string): { path: string; query: string } {
  const local = address.startsWith('/') ? address : address.replace(/^[a-z]+:\/\/[^/?]*/i, '')
  const mark = local.indexOf('?')
  return mark < 0 ? { path: local, query: '' } : { path: local.slice(0, mark), query: local.slice(mark + 1) }
}
