import type { Service } from '../../kernel/foundation/service.ts'
import type { JobKind } from '../../kernel/jobs/jobs.ts'
import { writeMembershipNotice } from '../mail/messages.ts'
import { queueMail } from '../mail/outbox.ts'
import { directoryIssuer } from '../organizations/members.ts'

export const membershipNotices = 'membership_notices'
const repeatSeconds = 60
const mailsAtOnce = 100
const mailedWithinSeconds = 7 * 24 * 60 * 60

/**
 * Tells members whom a directory added without asking, before it had to, how to leave. Each gets one mail, after their
 * first sign-in, as soon as mail is configured.
 */
export const mailingNotices = ({ config, secrets }: Pick<Service, 'config' | 'secrets'>): JobKind => ({
  name: membershipNotices,
  atOnce: 1,
  run: (job) =>
    job.settle(async (sql) => {
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
      const [left] = await sql`select from members where notice_due limit 1`
      return left ? { again: { inSeconds: repeatSeconds } } : 'done'
    }),
})
