import type { Service } from '../../kernel/foundation/service.ts'
import { keepDoing, type Repeated } from '../../kernel/lib/clock.ts'
import { writeMembershipNotice } from '../mail/messages.ts'
import { queueMail } from '../mail/outbox.ts'
import { directoryIssuer } from '../organizations/members.ts'

const repeatMs = 60_000
const mailsAtOnce = 100
const mailedWithinSeconds = 7 * 24 * 60 * 60

/**
 * Tells members whom a directory added without asking, before it had to, how to leave. Each gets one mail, after their
 * first sign-in, as soon as mail is configured.
 */
export function keepMailingNotices(
  { config, database, log, secrets }: Pick<Service, 'config' | 'database' | 'log' | 'secrets'>,
  everyMs = repeatMs,
): Repeated {
  async function mailNotices(): Promise<void> {
    if (!config.mail) return
    const due = await database.asNotifier(
      (sql) => sql<{ organization_id: string }>`select distinct organization_id from members where notice_due`,
    )
    for (const { organization_id } of due) {
      await database.asOrg(organization_id, async (sql) => {
        const told = await sql<{ email: string; organization: string }>`
          update members m set notice_due = false
          from users u, organizations o
          where u.id = m.user_id and o.id = m.organization_id and m.id in (
            select m.id from members m join users u on u.id = m.user_id
            where m.notice_due and m.deactivated_at is null and u.issuer <> ${directoryIssuer} and u.email_verified
            order by m.id limit ${mailsAtOnce} for update of m skip locked)
          returning u.email, o.name as organization`
        for (const { email, organization } of told) {
          const mail = writeMembershipNotice({ to: email, organization, url: `${config.publicUrl}/` })
          await queueMail(sql, { secrets }, mail, { withinSeconds: mailedWithinSeconds })
        }
      })
    }
  }
  const tryToMail = () =>
    mailNotices().catch((error) => log.warn({ err: error }, 'Could not mail notices of memberships; retrying'))
  return keepDoing(tryToMail, everyMs)
}
