import type { Service } from '../../kernel/foundation/service.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { randomText } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { writeInvitation } from '../mail/messages.ts'
import { isMailLeft, queueMail } from '../mail/outbox.ts'

export const lifetimeDays = 7

export const invitationExpiry = 'invitation_expiry'

/** Expires an invitation that the transaction has created or renewed. */
export const requestExpiry = (sql: Sql) =>
  requestJob(sql, invitationExpiry, { due: { inSeconds: lifetimeDays * 24 * 60 * 60 } })
const mailedWithinSeconds = 24 * 60 * 60
/** Per day. Beyond these, the administrator sends the link. */
const mostMailed = { toAddress: 5, ofOrganization: 200 }

/** The same page for everyone: it shows the invitations of the user who opens it. */
export const invitationsPage = ({ config }: Pick<Service, 'config'>) => `${config.publicUrl}/invitations`

/** A new link, and what is stored of it. */
export function newLink(service: Pick<Service, 'config'>): { url: string; hash: string } {
  const token = randomText(43)
  return { url: `${invitationsPage(service)}/join?token=${token}`, hash: fingerprint(token) }
}

export const mayMail = async (service: Service, organizationId: string, email: string): Promise<boolean> =>
  service.config.mail !== undefined &&
  (await isMailLeft(service, 'invitations-of', organizationId, mostMailed.ofOrganization)) &&
  (await isMailLeft(service, 'invitations-to', email, mostMailed.toAddress))

export async function queueInvitation(
  service: Service,
  sql: Sql,
  {
    id,
    email,
    url,
    organization,
    invitedBy,
  }: { id: string; email: string; url: string; organization: string; invitedBy: string },
): Promise<void> {
  const mail = writeInvitation({ to: email, organization, invitedBy, url, days: lifetimeDays })
  await queueMail(sql, service, mail, { invitationId: id, withinSeconds: mailedWithinSeconds })
}

/** Mails what a directory's change has created, as far as the limits allow. Users see the rest when they sign in. */
export async function mailInvitations(
  service: Service,
  organizationId: string,
  invited: readonly { id: string; email: string }[],
): Promise<void> {
  for (const { id, email } of invited.slice(0, mostMailed.ofOrganization)) {
    if (!(await mayMail(service, organizationId, email))) continue
    const { url, hash } = newLink(service)
    await service.database.asOrg(organizationId, async (sql) => {
      const [open] = await sql<{ organization: string; invited_by: string }>`
        update invitations i set mailed_link_hash = ${hash} from organizations o
        where i.id = ${id} and o.id = i.organization_id returning o.name as organization, i.invited_by`
      if (!open) return
      await queueInvitation(service, sql, {
        id,
        email,
        url,
        organization: open.organization,
        invitedBy: open.invited_by,
      })
    })
  }
}
