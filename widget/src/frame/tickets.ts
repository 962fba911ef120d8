import type { FrameKey } from '../kept/frame-key.ts'

/** The server refused a ticket, with this error code. */
export class TicketRefused extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

export const exchangeAddress = (): string => new URL('/api/auth/pk-ticket', location.href).href

export interface Ticket {
  ticket: string
  userId: string
  orgId: string
}

export interface TicketRequest {
  publishable_key: string
  embedding_origin: string
  id_token?: string
}

/** A proof of another time is ignored by the server, which accepts a minute. */
const mostSkewMs = 45_000
/** How far the server's clock is ahead. */
let ahead = 0

/** Throws `TicketRefused` if the server refuses, and other errors if it fails or can't be reached. */
export async function exchangeTicket(request: TicketRequest, key: FrameKey, isRepeated = false): Promise<Ticket> {
  const dpop = request.id_token && (await key.prove(request.id_token, Date.now() + ahead))
  const response = await fetch(exchangeAddress(), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(dpop && { dpop }) },
    body: JSON.stringify(request),
    // A user who is signed in to Inlay in this browser isn't the page's end user.
    credentials: 'omit',
    cache: 'no-store',
  })
  const answer = await response.json()
  const skew = Date.parse(response.headers.get('date') ?? '') - Date.now()
  if (dpop && !isRepeated && Math.abs(skew - ahead) > mostSkewMs) {
    ahead = skew
    return exchangeTicket(request, key, true)
  }
  if (response.ok) return answer
  if (response.status >= 500) throw new Error(answer.message)
  throw new TicketRefused(answer.code, answer.message)
}
