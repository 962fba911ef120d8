import { ownerOf, type ToolUser } from '../../kernel/foundation/tool-user.ts'
import type { Run } from '../runs/run.ts'

/** The end user or visitor whom the agent works for in a run. `agentName` is shown to users and recorded. */
export function userOfRun({ id, organizationId, holder, page }: Run, agentName: string): ToolUser {
  const { end_user, publishable_key_id } = holder
  const verified_email = end_user?.verified_email
  // A visitor's only page is the one where they wrote. Without one, nothing is theirs.
  const session = page?.source_id ?? id
  return {
    organizationId,
    owner: ownerOf(organizationId, { verified_email, end_user_id: end_user?.id, session }),
    id: end_user?.id ?? publishable_key_id,
    email: verified_email ?? '',
    email_verified: verified_email !== undefined,
    client_id: undefined,
    client_name: agentName || 'Agent',
    member: undefined,
    endUserId: end_user?.id,
  }
}

/** The origin of the session, as verified by the ticket exchange. Empty outside a browser. */
export const originOfRun = ({ holder }: Run): string => holder.origin ?? ''

/** The host that decides which skills are available. */
export const hostOfRun = (run: Run): string => URL.parse(originOfRun(run))?.hostname ?? ''
