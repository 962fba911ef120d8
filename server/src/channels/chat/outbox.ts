import type { ServerMessage } from '@inlay/protocol'

/** Something that takes several messages to send. */
export interface Consignment {
  messages: Iterable<ServerMessage> | AsyncIterable<ServerMessage>
  /** The client no longer wants the rest. */
  isOver?(): boolean
}

interface Receiver {
  /** Resolves once the connection has taken the message: with false if it is closed. */
  deliver(message: ServerMessage): Promise<boolean>
}

/**
 * Sends a client one consignment after the other, and each message only when the client's connection has taken the one
 * before. What isn't sent yet isn't read from the database either, so a client that reads slowly, or not at all, costs
 * one message and its place here.
 */
export class Outbox {
  readonly #client: Receiver
  readonly #waiting: (Consignment & PromiseWithResolvers<void>)[] = []

  constructor(client: Receiver) {
    this.#client = client
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0
  }

  /** Resolves once everything was sent, or needn't be. Rejects if the messages can't be read. */
  send(consignment: Consignment): Promise<void> {
    const sent = Promise.withResolvers<void>()
    this.#waiting.push({ ...consignment, ...sent })
    if (this.#waiting.length === 1) void this.#work()
    return sent.promise
  }

  async #work(): Promise<void> {
    for (let [next] = this.#waiting; next; [next] = this.#waiting) {
      const { messages, isOver = () => false, resolve, reject } = next
      try {
        for await (const message of messages) {
          // A client without a socket asks again on its next one.
          if (isOver() || !(await this.#client.deliver(message))) break
        }
        resolve()
      } catch (error) {
        reject(error)
      }
      this.#waiting.shift()
    }
  }
}
