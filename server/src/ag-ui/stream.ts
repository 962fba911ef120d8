import type { ServerResponse } from 'node:http'
import type { Event } from '@ag-ui/core'

/** Also keeps proxies from closing a connection on which nothing happens. */
const keepAliveMs = 15_000
/** How many bytes a client may leave unread before its connection is closed. */
const maxUnreadBytes = 4 * 1024 * 1024

/** A response of server-sent events. */
export class EventStream {
  readonly #response: ServerResponse
  readonly #headers: Record<string, string>
  #keepAlive: NodeJS.Timeout | undefined

  constructor(response: ServerResponse, headers: Record<string, string>) {
    this.#response = response
    this.#headers = headers
  }

  get isOpen(): boolean {
    return this.#response.headersSent && !this.#response.writableEnded
  }

  open(): void {
    const response = this.#response
    response.writeHead(200, {
      ...this.#headers,
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    response.flushHeaders()
    this.#keepAlive = setInterval(() => {
      if (!response.writableNeedDrain) response.write(': still here\n\n')
    }, keepAliveMs).unref()
    response.once('close', () => clearInterval(this.#keepAlive))
  }

  /** Closes the connection instead if the client has left too much unread. */
  send(events: readonly Event[]): void {
    const response = this.#response
    if (events.length === 0 || response.destroyed || response.writableEnded) return
    if (response.writableLength > maxUnreadBytes) response.destroy()
    else response.write(events.map(encode).join(''))
  }

  end(events: readonly Event[]): void {
    this.send(events)
    clearInterval(this.#keepAlive)
    this.#response.end()
  }

  /** Calls back once the connection is closed: with true if the client got everything, with false if it left. */
  onClose(closed: (isComplete: boolean) => void): void {
    const response = this.#response
    if (response.closed) closed(response.writableFinished)
    else response.once('close', () => closed(response.writableFinished))
  }
}

const encode = (event: Event): string => `data: ${JSON.stringify(event)}\n\n`
