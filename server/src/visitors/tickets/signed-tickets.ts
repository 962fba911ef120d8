import { longestTicket } from '@inlay/protocol'
import type { SignIn } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { randomText } from '../../kernel/lib/ids.ts'
import { createSigner } from '../../kernel/lib/signed-values.ts'

/** Identifies the widget that a ticket was issued to. */
export interface TicketHolder {
  organization_id: string
  publishable_key_id: string
  origin: string | undefined
  site_id: string | undefined
  /** Undefined for an anonymous visitor. */
  end_user: TicketEndUser | undefined
  /** Thumbprint of the key that the widget's frame has proven to have. It says nothing until the key is confirmed. */
  frame_key?: string | undefined
}

export interface TicketEndUser {
  id: string
  verified_email: string | undefined
  identity_expires_at: number
  /** Fingerprint of the provider settings that the ID token was verified with; see standing.ts. */
  provider: string
  /** Set for a member who tries the agent in the dashboard, without an ID token. */
  previewer?: Previewer
}

/** A member's sign-in that a preview ends with. Tokens of the operator's command line have no session. */
export interface Previewer {
  user_id: string
  grant_id?: string | undefined
  sign_in?: SignIn | undefined
}

/** The fields that all tickets of a session must share. The verified address decides who sees the page. */
export const bearerOf = ({ organization_id, publishable_key_id, origin, end_user }: TicketHolder): string =>
  JSON.stringify([
    organization_id,
    publishable_key_id,
    origin ?? null,
    end_user?.id ?? null,
    end_user?.verified_email ?? null,
  ])

/** Tickets are signed values: issuing one stores nothing, and any node can redeem it, even after a restart. */
export interface Tickets {
  /** Of several tickets with the same ID, only one can be redeemed. */
  issue(holder: TicketHolder, id?: string): { ticket: string; expiresAt: number }
  /** Returns the holder to exactly one caller. Throws if the use can't be recorded. */
  redeem(ticket: string): Promise<TicketHolder | undefined>
}

export const ticketSeconds = 60
/** How far the time of a frame's proof may be from ours. */
export const proofToleranceSeconds = 60
/**
 * Uses are stored for longer than a ticket is valid, because the nodes' clocks differ. The proof of a frame can be
 * repeated until twice its tolerance is over, and leads to tickets with the same ID.
 */
const usedSeconds = 2 * ticketSeconds
const usedByFrameSeconds = usedSeconds + 2 * proofToleranceSeconds

/** The ID makes each ticket unique, and records its use. The rest is the holder, without the names of its fields. */
type Contents = [
  id: string,
  expiresAt: number,
  organizationId: string,
  keyId: string,
  origin: string | null,
  siteId: string | null,
  endUser: TicketEndUser | null,
  frameKey?: string,
]

export function createTickets({ secrets, kv, clock }: Pick<Service, 'secrets' | 'kv' | 'clock'>): Tickets {
  const signer = createSigner<Contents>(secrets.derive('short tickets'), longestTicket)
  return {
    issue(
      { organization_id, publishable_key_id, origin = null, site_id = null, end_user = null, frame_key },
      id = randomText(22),
    ) {
      const expiresAt = clock() + ticketSeconds * 1000
      const contents: Contents = [id, expiresAt, organization_id, publishable_key_id, origin, site_id, end_user]
      if (frame_key !== undefined) contents.push(frame_key)
      return { ticket: signer.sign(contents), expiresAt }
    },
    async redeem(ticket) {
      const contents = signer.open(ticket)
      if (!contents) return undefined
      const [id, expiresAt, organization_id, publishable_key_id, origin, site_id, end_user, frame_key] = contents
      const keptSeconds = frame_key === undefined ? usedSeconds : usedByFrameSeconds
      if (expiresAt <= clock() || !(await kv.setIfAbsent(`ticket:${id}`, true, keptSeconds))) return undefined
      return {
        organization_id,
        publishable_key_id,
        origin: origin ?? undefined,
        site_id: site_id ?? undefined,
        end_user: end_user ?? undefined,
        ...(frame_key !== undefined && { frame_key }),
      }
    },
  }
}
