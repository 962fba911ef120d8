/** The server refused a ticket, with this error code. */
export class TicketRefused extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

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

/** Throws `TicketRefused` if the server refuses, and other errors if it fails or can't be reached. */
export async function exchangeTicket(request: TicketRequest): Promise<Ticket> {
  const response = await fetch('/api/auth/pk-ticket', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request),
    // A user who is signed in to Inlay in this browser isn't the page's end user.
    credentials: 'omit',
    cache: 'no-store',
  })
  const answer = await response.json()
  if (response.ok) return answer
  if (response.status >= 500) throw new Error(answer.message)
  throw new TicketRefused(answer.code, answer.message)
}
