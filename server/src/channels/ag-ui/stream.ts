import type { ServerResponse } from 'node:http'
import type { Event } from '@ag-ui/core'

/** Also keeps proxies from closing a connection on which nothing happens. */
const keepAliveMs = 15_000
/** About how many characters are handed to the connection at once. */
const portionLength = 128 * 1024
/** How long a client may take to read them, and how many more may arrive meanwhile. */
const portionWithinMs = 20_000
const maxUnreadLength = 4 * 1024 * 1024

/** A response of server-sent events. */
export class EventStream {
  readonly #response: ServerResponse
  readonly #headers: Record<string, string>
  #keepAlive: NodeJS.Timeout | undefined
  /** What the client gets once it has read what it was sent. */
  #waiting: string[] = []
  #isEnding = false
  #isBlocked = false
  /** Characters that have arrived since the client last read something. */
  #unread = 0

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

  /** Closes the connection if the client doesn't read. */
  send(events: readonly Event[]): void {
    if (this.#response.destroyed || this.#isEnding) return
    for (const event of events) {
      const text = encode(event)
      this.#waiting.push(text)
      if (this.#isBlocked) this.#unread += text.length
    }
    if (this.#unread > maxUnreadLength) this.#response.destroy()
    this.#write()
  }

  end(events: readonly Event[]): void {
    this.send(events)
    clearInterval(this.#keepAlive)
    this.#isEnding = true
    this.#write()
  }

  #write(): void {
    const response = this.#response
    if (this.#isBlocked || response.destroyed) return
    while (this.#waiting.length > 0 && !response.writableNeedDrain) response.write(this.#takePortion())
    if (response.writableNeedDrain) this.#waitForClient()
    else if (this.#isEnding) response.end()
  }

  #takePortion(): string {
    let portion = ''
    let taken = 0
    for (const text of this.#waiting) {
      if (portion.length > portionLength) break
      portion += text
      taken += 1
    }
    this.#waiting = this.#waiting.slice(taken)
    return portion
  }

  #waitForClient(): void {
    const response = this.#response
    this.#isBlocked = true
    const timer = setTimeout(() => response.destroy(), portionWithinMs).unref()
    const proceed = () => {
      clearTimeout(timer)
      response.off('drain', proceed).off('close', proceed)
      this.#isBlocked = false
      this.#unread = 0
      this.#write()
    }
    response.once('drain', proceed).once('close', proceed)
  }

  /** Calls back once the connection is closed: with true if the client got everything, with false if it left. */
  onClose(closed: (isComplete: boolean) => void): void {
    const response = this.#response
    if (response.closed) closed(response.writableFinished)
    else response.once('close', () => closed(response.writableFinished))
  }
}

const encode = (event: Event): string => `data: ${JSON.stringify(event)}\n\n`
