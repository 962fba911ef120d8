import type { Service } from '../../kernel/foundation/service.ts'
import { createSigner } from '../../kernel/lib/signed-values.ts'
import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'
import type { FrameClaim } from './browsers.ts'

/**
 * What a frame hands to the window that confirms its browser. The server signs it for the holder of a frame's ticket, so
 * it names the user and the key. On its own, it's worth nothing: the window still asks for a proof of the user.
 */
export interface ConfirmRequests {
  /** Undefined for a holder without a frame's key. */
  issue(holder: TicketHolder): string | undefined
  open(request: string): FrameClaim | undefined
}

const validMs = 2 * 60_000
const longestRequest = 2_048

export function createConfirmRequests({ secrets, clock }: Pick<Service, 'secrets' | 'clock'>): ConfirmRequests {
  const signer = createSigner<FrameClaim & { expiresAt: number }>(secrets.derive('frame requests'), longestRequest)
  return {
    issue({ organization_id: organizationId, end_user, frame_key: thumbprint }) {
      if (!end_user || thumbprint === undefined) return undefined
      const { id: endUserId, verified_email: verifiedEmail = null } = end_user
      return signer.sign({ organizationId, endUserId, thumbprint, verifiedEmail, expiresAt: clock() + validMs })
    },
    open(request) {
      const opened = signer.open(request)
      if (!opened || opened.expiresAt <= clock()) return undefined
      const { expiresAt: _, ...claim } = opened
      return claim
    },
  }
}
