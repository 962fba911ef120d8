/** A ticket was refused: the interface's code, and whether trying again could help. */
export class TicketRefused extends Error {
  override readonly name = 'TicketRefused'
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

/** Throws `TicketRefused` when the answer is no, anything else when there was none. */
export async function exchangeTicket(request: TicketRequest): Promise<Ticket> {
  const response = await fetch('/api/auth/pk-ticket', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request),
    // A person of this service who happens to be signed in here is not the page's person.
    credentials: 'omit',
    cache: 'no-store',
  })
  const answer = await response.json()
  if (response.ok) return answer
  if (response.status >= 500) throw new Error(answer.message)
  throw new TicketRefused(answer.code, answer.message)
}
