import type { Service } from '../../kernel/foundation/service.ts'
import { announceAll } from '../../kernel/stores/changes.ts'
import { topics } from '../../kernel/stores/topics.ts'
import type { AccessCleanup } from '../access-cleanup/access-cleanup.ts'
import { mailInvitations } from '../organizations/invitation-links.ts'
import type { Invited } from './directory-invitations.ts'

/** People whose access has changed, for `announceChangedPeople` after the commit. */
export interface ChangedPeople {
  /** Users with a new membership or role. */
  changed: string[]
  /** Users and end users whose access has ended. Their cleanup is requested. */
  departed: string[]
  /** New invitations, which are mailed. */
  invited: Invited[]
}

export const nobodyChanged: ChangedPeople = { changed: [], departed: [], invited: [] }

const cleanupsAtOnce = 8

/** After the commit: ends all access of those who left, on every node, before it returns. */
export async function announceChangedPeople(
  service: Service & { accessCleanup: AccessCleanup },
  organizationId: string,
  { changed, departed, invited }: ChangedPeople,
): Promise<void> {
  const { changes, accessCleanup } = service
  const all = [...changed.map(topics.user), ...departed.flatMap((id) => [topics.endUser(id), topics.user(id)])]
  announceAll(changes, all)
  for (let first = 0; first < departed.length; first += cleanupsAtOnce) {
    const batch = departed.slice(first, first + cleanupsAtOnce)
    await Promise.all(batch.map((id) => accessCleanup.finish(organizationId, id)))
  }
  await mailInvitations(service, organizationId, invited)
}
