import type { Service } from '../../kernel/foundation/service.ts'
import { createSigner } from '../../kernel/lib/signed-values.ts'
import type { TicketEndUser } from './signed-tickets.ts'

/** Lets a member talk to the agent in the dashboard, with one publishable key. */
interface Preview {
  organization_id: string
  publishable_key_id: string
  end_user: TicketEndUser
}

/** Preview tokens are signed values. The ticket exchange accepts them in place of ID tokens, on Inlay's own origin. */
export interface PreviewTokens {
  issue(preview: Omit<Preview, 'end_user'> & { end_user: Omit<TicketEndUser, 'identity_expires_at'> }): {
    token: string
    expiresAt: number
  }
  /** Also returns expired previews. Undefined if the token wasn't issued here. */
  open(token: string): Preview | undefined
  /** Whether the sign-in still stands in which a preview was asked for. */
  isSignedIn(grantId: string | undefined): Promise<boolean>
}

/** How long the user's browser keeps the connection before it needs another token. */
const previewMs = 15 * 60_000

const prefix = 'inlay_preview_'
const longestToken = 4_096

export const isPreviewToken = (text: string): boolean => text.startsWith(prefix)

export function createPreviewTokens(
  { secrets, clock }: Pick<Service, 'secrets' | 'clock'>,
  hasGrant: (id: string) => Promise<boolean>,
): PreviewTokens {
  const signer = createSigner<Preview>(secrets.derive('preview tokens'), longestToken)
  return {
    issue(preview) {
      const expiresAt = clock() + previewMs
      const end_user = { ...preview.end_user, identity_expires_at: expiresAt }
      return { token: prefix + signer.sign({ ...preview, end_user }), expiresAt }
    },
    open: (token) => (isPreviewToken(token) ? signer.open(token.slice(prefix.length)) : undefined),
    isSignedIn: async (grantId) => grantId === undefined || hasGrant(grantId),
  }
}
