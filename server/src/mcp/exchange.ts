import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ToolCall } from '../foundation/tool.ts'
import { sendJson } from '../http/connections.ts'
import type { Observation } from '../http/observation.ts'
import type { Cancellations } from './cancellations.ts'

const keepAliveMs = 15_000

/** One HTTP request and its answer: a piece of JSON, or a stream of events if there is something to tell before it. */
export class Exchange {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #observation: Observation
  #keepAlive: NodeJS.Timeout | undefined
  /** The latest progress of each call that has to wait until the client has read what was sent before. */
  #late = new Map<Call, string>()

  constructor(request: IncomingMessage, response: ServerResponse, observation: Observation) {
    this.#request = request
    this.#response = response
    this.#observation = observation
  }

  get requestId(): string {
    return this.#observation.requestId
  }

  /** Calls back when the exchange is over, at once if it is already: was the response sent, or did the client hang up? */
  onEnd(ended: (isAnswered: boolean) => void): void {
    const response = this.#response
    if (response.closed) ended(response.writableFinished)
    else response.once('close', () => ended(response.writableFinished))
  }

  get acceptsEvents(): boolean {
    return this.#request.headers.accept?.includes('text/event-stream') ?? false
  }

  /**
   * Sends the progress of a call ahead of the response, which from then on is the last event of a stream. A client that reads
   * slowly gets the latest progress instead of all of it, and one that does not read is cut off (`http.ts`).
   */
  sendProgress(call: Call, message: string): void {
    const response = this.#response
    if (response.writableEnded || response.destroyed) return
    if (!response.headersSent) this.#beginStream()
    if (!response.writableNeedDrain) response.write(encodeEvent(message))
    else {
      if (this.#late.size === 0) response.once('drain', () => this.#catchUp())
      this.#late.set(call, message)
    }
  }

  #beginStream(): void {
    const response = this.#response
    response.writeHead(200, {
      ...this.#observation.headers,
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    this.#keepAlive = setInterval(() => {
      if (!response.writableNeedDrain) response.write(': still here\n\n')
    }, keepAliveMs).unref()
    response.once('close', () => clearInterval(this.#keepAlive))
  }

  #catchUp(): void {
    const late = this.#late
    this.#late = new Map()
    for (const [call, message] of late) this.sendProgress(call, message)
  }

  send(status: number, message: string, headers?: Record<string, string>): void {
    if (this.#response.headersSent) {
      clearInterval(this.#keepAlive)
      this.#late.clear()
      this.#response.end(encodeEvent(message))
      return
    }
    if (headers) Object.assign(this.#observation.headers, headers)
    sendJson(this.#response, status, this.#observation.headers, message)
  }

  /** Answers the preflight of a page that may call us. GET and DELETE are among the methods so that it can read their 405. */
  allow(requestedHeaders: string | undefined): void {
    this.#response.writeHead(204, {
      ...this.#observation.headers,
      'access-control-allow-methods': 'POST, GET, DELETE',
      ...(requestedHeaders && { 'access-control-allow-headers': requestedHeaders }),
      'access-control-max-age': '600',
    })
    this.#response.end()
  }

  accept(): void {
    this.#response.writeHead(202, this.#observation.headers).end()
  }
}

const encodeEvent = (message: string): string => `event: message\ndata: ${message}\n\n`

/** A tool call in an exchange; a batch has several. */
export class Call implements ToolCall {
  readonly #exchange: Exchange
  readonly #meta: unknown
  readonly #cancellations: Cancellations
  /** Under which the client may cancel the call. */
  readonly #key: string
  #abort: AbortController | undefined

  constructor(exchange: Exchange, meta: unknown, cancellations: Cancellations, key: string) {
    this.#exchange = exchange
    this.#meta = meta
    this.#cancellations = cancellations
    this.#key = key
  }

  /** Made only for tools that look at it: most calls are over before a client could give up. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      const abort = new AbortController()
      this.#abort = abort
      const forget = this.#cancellations.add(this.#key, () => abort.abort('The client cancelled the call'))
      this.#exchange.onEnd((isAnswered) => {
        forget()
        if (!isAnswered) abort.abort('The client disconnected')
      })
    }
    return this.#abort.signal
  }

  progress(progress: { progress: number; total?: number; message?: string }): void {
    const { progressToken } = (this.#meta ?? {}) as { progressToken?: string | number }
    if (progressToken === undefined || !this.#exchange.acceptsEvents) return
    const params = { progressToken, ...progress }
    this.#exchange.sendProgress(this, JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params }))
  }
}
