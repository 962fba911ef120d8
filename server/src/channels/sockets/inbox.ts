import type { RawData } from 'ws'
import { type Bucket, SharedBuckets } from '../../kernel/lib/shares/shared-buckets.ts'
import { type Rate, TokenBucket, TokenBuckets } from '../../kernel/lib/shares/token-buckets.ts'
import { networksOf } from '../../kernel/net/client-address.ts'
import type { RuntimeSocket } from './socket.ts'

/** How long messages of sockets can take in one turn of the event loop before other work has its turn. */
const turnMs = 4

/**
 * What sockets can send, in units: a message costs one, one more per KiB, and one more per tool definition. The response
 * to a call costs nothing, because the server has asked for it. Visitors also share what their address and their key
 * have, because anyone can be one. When a key's runs short, the addresses that have sent most are read more slowly first.
 */
export const messageRates = {
  socket: { perSecond: 200, atOnce: 4_096 },
  address: { perSecond: 5_000, atOnce: 20_000 },
  key: { perSecond: 20_000, atOnce: 200_000 },
} satisfies Record<string, Rate>

const knownAddresses = 50_000
const knownKeys = 10_000

interface Letter {
  data: RawData
  isBinary: boolean
}

/** A socket with messages that aren't handled yet. It isn't read until they are. */
interface Waiting {
  letters: Letter[]
  end?: () => void
}

/** Returns what the message has cost. */
type Handle = (socket: RuntimeSocket, data: RawData, isBinary: boolean) => number

/**
 * Passes on the messages of all sockets, in the order of each socket. While there are too many for one turn of the event
 * loop, organizations and their visitors take turns. A socket that sends too much is read more slowly, and loses nothing.
 */
export class Inbox {
  readonly #handle: Handle
  readonly #now: () => number
  readonly #waiting = new Map<RuntimeSocket, Waiting>()
  /** The sockets whose messages can be handled, by lane. Those in front are next. */
  readonly #lanes = new Map<string, Set<RuntimeSocket>>()
  readonly #addresses = new TokenBuckets(messageRates.address, knownAddresses)
  readonly #keys = new SharedBuckets(messageRates.key, { buckets: knownKeys, members: knownAddresses })
  /** Time used in this turn of the event loop. */
  #usedMs = 0
  #nextTurn: NodeJS.Immediate | undefined

  constructor(handle: Handle, now: () => number = () => performance.now()) {
    this.#handle = handle
    this.#now = now
  }

  receive(socket: RuntimeSocket, data: RawData, isBinary: boolean): void {
    const waiting = this.#waiting.get(socket)
    if (waiting) waiting.letters.push({ data, isBinary })
    else if (this.#lanes.size === 0 && this.#usedMs < turnMs && this.#debtOf(socket) === 0) {
      this.#open(socket, { data, isBinary })
    } else {
      socket.pause()
      this.#waiting.set(socket, { letters: [{ data, isBinary }] })
      this.#line(socket)
    }
  }

  /** Calls `end` once the messages that a closed socket has sent are handled. Those of a socket in debt are dropped. */
  closed(socket: RuntimeSocket, end: () => void): void {
    const waiting = this.#waiting.get(socket)
    if (waiting && this.#debtOf(socket) === 0) waiting.end = end
    else {
      this.#waiting.delete(socket)
      end()
    }
  }

  #open(socket: RuntimeSocket, { data, isBinary }: Letter): void {
    this.#nextTurn ??= setImmediate(() => this.#takeTurn())
    const startedAt = this.#now()
    const cost = this.#handle(socket, data, isBinary)
    const endedAt = this.#now()
    this.#usedMs += endedAt - startedAt
    if (cost > 0) for (const bucket of this.#bucketsOf(socket)) bucket.spend(cost, endedAt)
  }

  #takeTurn(): void {
    this.#nextTurn = undefined
    this.#usedMs = 0
    while (this.#usedMs < turnMs) {
      const [lane] = this.#lanes
      if (!lane) return
      const [name, sockets] = lane
      const [socket] = sockets
      this.#lanes.delete(name)
      if (sockets.size > 1) this.#lanes.set(name, sockets)
      if (!socket) continue
      sockets.delete(socket)
      this.#openNext(socket)
    }
    if (this.#lanes.size > 0) this.#nextTurn ??= setImmediate(() => this.#takeTurn())
  }

  #openNext(socket: RuntimeSocket): void {
    const waiting = this.#waiting.get(socket)
    if (!waiting) return
    // Other sockets of its address may have sent too much since it was lined up.
    if (this.#debtOf(socket) > 0) {
      this.#line(socket)
      return
    }
    const letter = waiting.letters.shift()
    if (!letter) return
    this.#open(socket, letter)
    if (waiting.letters.length > 0) {
      this.#line(socket)
      return
    }
    this.#waiting.delete(socket)
    socket.resume()
    waiting.end?.()
  }

  /** Lines the socket up for its next message, when it isn't in debt anymore. */
  #line(socket: RuntimeSocket): void {
    if (!this.#waiting.has(socket)) return
    const debtMs = this.#debtOf(socket)
    if (debtMs > 0) {
      setTimeout(() => this.#line(socket), debtMs).unref()
      return
    }
    const name = laneOf(socket)
    const lane = this.#lanes.get(name)
    if (lane) lane.add(socket)
    else this.#lanes.set(name, new Set([socket]))
    this.#nextTurn ??= setImmediate(() => this.#takeTurn())
  }

  /** How many milliseconds until the socket may send again. */
  #debtOf(socket: RuntimeSocket): number {
    const now = this.#now()
    let wait = 0
    for (const bucket of this.#bucketsOf(socket)) wait = Math.max(wait, bucket.wait(1, now))
    return wait
  }

  #bucketsOf(socket: RuntimeSocket): readonly Bucket[] {
    socket.buckets ??= this.#findBuckets(socket)
    return socket.buckets
  }

  #findBuckets({ opened }: RuntimeSocket): Bucket[] {
    const own = new TokenBucket(messageRates.socket)
    if (!opened || opened.holder.end_user) return [own]
    const { address, holder } = opened
    return [
      own,
      this.#addresses.of(`${holder.organization_id} ${address}`),
      this.#keys.of(holder.publishable_key_id, networksOf(address)),
    ]
  }
}

const laneOf = ({ opened }: RuntimeSocket): string => {
  if (!opened) return ''
  const { organization_id, end_user } = opened.holder
  return end_user ? organization_id : `${organization_id} visitors`
}
