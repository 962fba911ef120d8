import type { Speaker } from '../../agent/runs/runs.ts'
import type { HttpExchange, Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { randomText } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { createSigner } from '../../kernel/lib/signed-values.ts'
import { bearerOf, type TicketHolder, type Tickets } from '../../visitors/tickets/signed-tickets.ts'
import { checkHolder } from '../../visitors/tickets/standing.ts'
import { type startAgentSession as contract, longestSessionToken, sessionFailure } from './contract.ts'

const sessionMs = 15 * 60 * 1000
/** How long an anonymous visitor can continue their threads without a new session. */
const visitorMs = 30 * 24 * 3600 * 1000

export interface AgentSession extends Omit<Speaker, 'address' | 'is_own_frame'> {
  /** Milliseconds since the Unix epoch. */
  expiresAt: number
}

/** Session tokens are signed values, like tickets: issuing one stores nothing, and any node can read it. */
export interface AgentSessions {
  issue(holder: TicketHolder, visitor: string | undefined): { token: string; expiresAt: number }
  /** Also returns expired sessions. Undefined if the token wasn't issued here. */
  open(token: string): AgentSession | undefined
}

type Contents = [expiresAt: number, holder: TicketHolder, visitor: string | null]

export function createAgentSessions({ secrets, clock }: Pick<Service, 'secrets' | 'clock'>): AgentSessions {
  const signer = createSigner<Contents>(secrets.derive('agent sessions'), longestSessionToken)
  return {
    issue(holder, visitor) {
      const identityEnds = holder.end_user?.identity_expires_at ?? Number.POSITIVE_INFINITY
      const expiresAt = Math.min(clock() + sessionMs, identityEnds)
      return { token: signer.sign([expiresAt, holder, visitor ?? null]), expiresAt }
    },
    open(token) {
      const contents = signer.open(token)
      if (!contents) return undefined
      const [expiresAt, holder, visitor] = contents
      return { expiresAt, holder, visitor: visitor ?? undefined }
    },
  }
}

export async function startAgentSession(
  service: Service & { tickets: Tickets; agentSessions: AgentSessions },
  _caller: undefined,
  { ticket, previous_token }: Input<typeof contract>,
  http: HttpExchange,
): Promise<Output<typeof contract>> {
  const holder = await service.tickets.redeem(ticket)
  if (!holder) throw sessionFailure('INVALID_TICKET')
  if (http.origin !== undefined && http.origin !== holder.origin) throw sessionFailure('ORIGIN_NOT_ALLOWED')
  if (http.origin !== undefined) http.allowOrigin(http.origin)
  const standing = await checkHolder(service, holder)
  if (standing !== 'stands') throw sessionFailure('INVALID_TICKET')
  const { token, expiresAt } = service.agentSessions.issue(holder, visitorOf(service, holder, previous_token))
  if (expiresAt <= service.clock()) throw sessionFailure('INVALID_TICKET')
  return { token, expires_at: new Date(expiresAt).toISOString() }
}

/** The threads of an anonymous visitor belong to a secret. Over AG-UI the signed token takes its place. */
function visitorOf(
  { agentSessions, clock }: Service & { agentSessions: AgentSessions },
  holder: TicketHolder,
  previousToken: string | undefined,
): string | undefined {
  if (holder.end_user) return undefined
  const previous = previousToken === undefined ? undefined : agentSessions.open(previousToken)
  const isSame = previous && bearerOf(previous.holder) === bearerOf(holder) && previous.expiresAt + visitorMs > clock()
  return (isSame && previous.visitor) || fingerprint(randomText(43))
}
