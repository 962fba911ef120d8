import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ToolCall } from '../../kernel/foundation/tool.ts'
import { sendJson } from '../../kernel/http/connections.ts'
import type { Observation } from '../../kernel/http/observation.ts'
import type { Cancellations } from './cancellations.ts'

const keepAliveMs = 15_000

/** One HTTP request and its response: JSON, or an event stream if progress is sent before the result. */
export class Exchange {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #observation: Observation
  #keepAlive: NodeJS.Timeout | undefined
  /** The latest unsent progress per call, while the client hasn't read what was already sent. */
  #late = new Map<Call, string>()

  constructor(request: IncomingMessage, response: ServerResponse, observation: Observation) {
    this.#request = request
    this.#response = response
    this.#observation = observation
  }

  get requestId(): string {
    return this.#observation.requestId
  }

  /** Calls back when the exchange ends: with true if the response was sent, with false if the client disconnected. */
  onEnd(ended: (isAnswered: boolean) => void): void {
    const response = this.#response
    if (response.closed) ended(response.writableFinished)
    else response.once('close', () => ended(response.writableFinished))
  }

  get acceptsEvents(): boolean {
    return this.#request.headers.accept?.includes('text/event-stream') ?? false
  }

  /**
   * Sends the progress of a call as an event and turns the response into a stream. A client that reads slowly gets only
   * the latest progress, and one that doesn't read is disconnected (`kernel/http/connections.ts`).
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

  /** Allows a preflight request. GET and DELETE are included so that the page can read their 405. */
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
  /** Key under which the client can cancel the call. Only made if the tool can be cancelled. */
  readonly #key: () => string
  #abort: AbortController | undefined

  constructor(exchange: Exchange, meta: unknown, cancellations: Cancellations, key: () => string) {
    this.#exchange = exchange
    this.#meta = meta
    this.#cancellations = cancellations
    this.#key = key
  }

  /** Created lazily: most tools finish before a client could cancel and never use it. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      const abort = new AbortController()
      this.#abort = abort
      const forget = this.#cancellations.add(this.#key(), () => abort.abort('The client cancelled the call'))
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
