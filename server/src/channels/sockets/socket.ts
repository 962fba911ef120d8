import { type ClientMessage, closeCodes, maxMessageBytes, type ServerMessage } from '@inlay/protocol'
import { WebSocket } from 'ws'
import type { Bucket } from '../../kernel/lib/shares/shared-buckets.ts'
import { createTurnBatch } from '../../kernel/lib/turn-batch.ts'
import type { EndOfAccess, Held } from '../../visitors/tickets/ends-of-access.ts'
import type { FrameStanding } from '../../visitors/tickets/frames.ts'
import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'

/** Why the server closes a socket, and how long the page waits before it reconnects, if it may. */
export interface Farewell {
  code: (ServerMessage & { type: 'bye' })['code']
  reason: string
  retryAfterMs?: number
}

export const farewells: Record<EndOfAccess, Farewell> = {
  key_revoked: { code: 'key_revoked', reason: 'The publishable key was revoked' },
  user_removed: { code: 'user_removed', reason: 'The end user was deleted' },
  member_left: { code: 'user_removed', reason: 'The member’s access has ended' },
  user_deactivated: { code: 'user_removed', reason: 'The organization’s directory has deactivated the user' },
  terms_changed: { code: 'identity_expired', reason: 'A new ticket is needed', retryAfterMs: 0 },
}

const closeCodeOf: Record<Farewell['code'], number> = {
  restarting: closeCodes.restarting,
  identity_expired: closeCodes.identityExpired,
  key_revoked: closeCodes.accessEnded,
  user_removed: closeCodes.accessEnded,
  over_limit: closeCodes.overLimit,
  protocol_error: closeCodes.protocolError,
  too_slow: closeCodes.tooSlow,
  internal_error: closeCodes.internalError,
}

/** WebSocket allows 123 bytes for a close reason. */
const maxReasonBytes = 120

/** Reasons for closes by the WebSocket library, which sends only a code. */
const frameFaults = new Map<number | undefined, string>([
  [1002, 'A frame is malformed'],
  [1007, 'A text message is not valid UTF-8'],
  [closeCodes.protocolError, 'A message has too many fragments'],
  [closeCodes.overLimit, `A message can have at most ${maxMessageBytes} bytes`],
])

/** Limits of what a client leaves unread. */
const maxBufferedBytes = 4 * maxMessageBytes
const maxBufferedFrames = 1_000
/** How long a client may take to read one portion of something long. */
const portionWithinMs = 20_000

interface Unsent {
  socket: RuntimeSocket
  text: string
  /** The connection has taken the message, or failed. */
  taken?: ((error?: Error) => void) | undefined
}

const unsent = createTurnBatch<Unsent>((messages) => {
  // Before anything is sent, because the client couldn't have read that yet.
  for (const { socket } of messages) socket.checkBacklog()
  for (const { socket, text, taken } of messages) {
    if (socket.readyState === WebSocket.OPEN) socket.send(text, taken)
    else taken?.(new Error('The socket is closed'))
  }
})

/** What a socket tells its session, declared here because the session imports this file. */
interface SocketSession {
  /** Returns whether the server had asked for the message. */
  receive(message: ClientMessage): boolean
  /** The client has sent something, even if it was only a pong. */
  seen(): void
  /** The socket was lost without a close message. The page may reconnect. */
  dropped(): void
  leave(): void
  end(farewell: Farewell): void
}

/** A socket and its session. All sockets share their listeners, because a node may hold very many. */
export class RuntimeSocket extends WebSocket implements Held {
  session: SocketSession | undefined
  /** What the socket may send, for its own, and for what it shares with others. */
  buckets: readonly Bucket[] | undefined
  /** The redeemed ticket, and how the socket was opened. */
  opened:
    | {
        holder: TicketHolder
        frame: FrameStanding | undefined
        address: string
        at: number
        saidHello: boolean
        /** The `Origin` header is ours. Any program can send it, so it proves nothing about who opened the socket. */
        isFromOurOrigin: boolean
      }
    | undefined
  /** Frames sent since the buffer was last empty, because small frames take far more memory than their bytes. */
  #backlog = 0
  #isTooSlow = false

  /** Sends the pong here, because the library would buffer pongs without a limit. */
  answerPing(data: Buffer): void {
    this.checkBacklog()
    if (this.readyState === WebSocket.OPEN) this.pong(data)
  }

  /** Emits `slow` once if the client doesn't read fast enough. */
  checkBacklog(): void {
    const bytes = this.bufferedAmount
    this.#backlog = bytes === 0 ? 0 : this.#backlog + 1
    if (bytes > maxBufferedBytes || this.#backlog > maxBufferedFrames) this.#giveUp()
  }

  #giveUp(): void {
    if (this.#isTooSlow || this.readyState !== WebSocket.OPEN) return
    this.#isTooSlow = true
    this.emit('slow')
  }

  /** Batches all messages of one turn of the event loop, as HTTP responses are. */
  say(message: ServerMessage): void {
    if (this.readyState !== WebSocket.OPEN) return
    unsent.add({ socket: this, text: JSON.stringify(message) })
  }

  accessEnded(why: EndOfAccess): void {
    this.endWith(farewells[why])
  }

  frameJudged(frame: FrameStanding | undefined): void {
    if (this.opened) this.opened.frame = frame
  }

  /**
   * Sends one portion of something long. Resolves once the connection has taken it and everything before it: with false
   * if it is closed. A client that doesn't read in time is too slow.
   */
  deliver(message: ServerMessage): Promise<boolean> {
    const timer = setTimeout(() => this.#giveUp(), portionWithinMs).unref()
    return new Promise((resolve) => {
      const taken = (error?: Error) => {
        clearTimeout(timer)
        resolve(!error)
      }
      unsent.add({ socket: this, text: JSON.stringify(message), taken })
    })
  }

  endWith({ code, reason, retryAfterMs }: Farewell): void {
    this.say({ type: 'bye', code, reason, ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }) })
    this.close(
      closeCodeOf[code],
      Buffer.from(reason)
        .subarray(0, maxReasonBytes)
        .toString()
        .replace(/\uFFFD+$/, ''),
    )
  }

  override close(code?: number, reason?: string | Buffer): void {
    unsent.flush()
    super.close(code, reason ?? frameFaults.get(code))
  }
}
