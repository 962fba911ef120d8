import type { ClientMessageInput, ServerMessage } from '@inlay/protocol'
import { newId } from '../kept/ids.ts'

type Request = Extract<ClientMessageInput, { type: `chat/${string}` }>
type WithoutId<Message> = Message extends unknown ? Omit<Message, 'request_id'> : never
export type NewRequest = WithoutId<Request>
type Part = Extract<ServerMessage, { type: 'chat/message-part' }>
type Response = Exclude<Extract<ServerMessage, { request_id: string }>, Part>
export type ResponseOf<Type extends Response['type']> = Extract<Response, { type: Type }>
export type Refusal = Pick<ResponseOf<'chat/error'>, 'code' | 'message' | 'values' | 'retry_after_ms'>

type Accepted = Exclude<Response, { type: 'chat/error' }>

interface Handling {
  /**
   * `keep`: repeated until there is a response, also on the next socket; the server carries it out only once.
   * `read`: repeated on this socket, and given up without a word if it is lost. `once`: never repeated.
   */
  kind: 'keep' | 'read' | 'once'
  onResponse(response: Accepted): void
  onRefusal(refusal: Refusal): void
}

/** Requests to the server, each with exactly one response. */
export interface Requests {
  ask(request: NewRequest, handling: Handling): void
  receive(response: Response | Part): void
  connected(): void
  disconnected(): void
  /** Gives up all requests: they belong to another user. */
  clear(): void
}

interface Pending extends Handling {
  message: Request
  isSent: boolean
  tries: number
  /** What has arrived before the response. */
  parts: Part[]
  timer: ReturnType<typeof setTimeout> | undefined
}

const responseWithinMs = 15_000
const mostTries = 3
/** The server handles 8 at the same time. */
const mostSent = 6
const mostPending = 100

export function createRequests(send: (message: ClientMessageInput) => void): Requests {
  const pending = new Map<string, Pending>()
  let isConnected = false

  function forget(id: string): Pending | undefined {
    const found = pending.get(id)
    clearTimeout(found?.timer)
    pending.delete(id)
    return found
  }

  /** Sends what waits, as far as the server takes it. */
  function flush(): void {
    if (!isConnected) return
    let sent = [...pending.values()].filter(({ isSent }) => isSent).length
    for (const request of pending.values()) {
      if (request.isSent) continue
      if (sent >= mostSent) return
      sent += 1
      transmit(request)
    }
  }

  function transmit(request: Pending): void {
    request.isSent = true
    request.tries += 1
    expectMore(request)
    send(request.message)
  }

  function expectMore(request: Pending): void {
    clearTimeout(request.timer)
    request.timer = setTimeout(() => giveUp(request), responseWithinMs)
  }

  function giveUp(request: Pending): void {
    if (request.kind !== 'once' && request.tries < mostTries) transmit(request)
    else {
      refuse(request, noResponse)
      flush()
    }
  }

  function receivePart(part: Part): void {
    const request = pending.get(part.request_id)
    if (!request) return
    expectMore(request)
    const isAgain = request.parts.some(({ message_id, n }) => message_id === part.message_id && n === part.n)
    if (!isAgain) request.parts.push(part)
  }

  function refuse({ message, onRefusal }: Pending, refusal: Refusal): void {
    forget(message.request_id)
    onRefusal(refusal)
  }

  return {
    ask(request, handling) {
      const message = { ...request, request_id: newId() } as Request
      const added: Pending = { ...handling, message, isSent: false, tries: 0, parts: [], timer: undefined }
      if (pending.size >= mostPending) return handling.onRefusal(tooMany)
      if (!isConnected && handling.kind === 'once') return handling.onRefusal(offline)
      if (!isConnected && handling.kind === 'read') return
      pending.set(message.request_id, added)
      flush()
    },
    receive(response) {
      if (response.type === 'chat/message-part') return receivePart(response)
      const request = forget(response.request_id)
      // A repeated request has several responses.
      if (!request) return
      if (response.type === 'chat/error') request.onRefusal(response)
      else request.onResponse(addParts(response, request.parts))
      flush()
    },
    connected() {
      isConnected = true
      flush()
    },
    disconnected() {
      isConnected = false
      for (const request of [...pending.values()]) {
        clearTimeout(request.timer)
        Object.assign(request, { isSent: false, tries: 0, parts: [] })
        if (request.kind === 'once') refuse(request, offline)
        else if (request.kind === 'read') forget(request.message.request_id)
      }
    },
    clear() {
      for (const id of [...pending.keys()]) forget(id)
    },
  }
}

/** A response whose messages have all of their chunks. */
function addParts(response: Accepted, parts: readonly Part[]): Accepted {
  if (response.type !== 'chat/message-list' || parts.length === 0) return response
  const messages = response.messages.map((message) => {
    if (message.role === 'user') return message
    const earlier = parts.filter(({ message_id }) => message_id === message.id).flatMap(({ chunks }) => chunks)
    return { ...message, chunks: [...earlier, ...message.chunks] }
  })
  return { ...response, messages }
}

const noResponse = { code: 'NO_RESPONSE', message: 'The server doesn’t respond. Try again.' }
const offline = { code: 'OFFLINE', message: 'The connection was lost. Try again when it’s back.' }
const tooMany = { code: 'TOO_MANY_REQUESTS', message: 'Too many requests are waiting. Try again later.' }
