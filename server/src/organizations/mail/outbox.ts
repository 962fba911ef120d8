import type { Service } from '../../kernel/foundation/service.ts'
import { requestOwnJob } from '../../kernel/jobs/requests.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { canonicalEmail } from '../../kernel/net/email-addresses.ts'
import type { Sql } from '../../kernel/stores/database.ts'

export interface Mail {
  to: string
  subject: string
  text: string
  html: string
}

/** Where a mail's contents are stored, for their encryption. */
export const placeOf = (id: string): string => `mail_outbox.message_sealed:${id}`

export const mailJob = 'mail'

/** Sends a mail in the background if the transaction commits. Only call it where the operator has set up mail. */
export async function queueMail(
  sql: Sql,
  { secrets }: Pick<Service, 'secrets'>,
  mail: Mail,
  { invitationId, withinSeconds }: { invitationId?: string; withinSeconds: number },
): Promise<void> {
  const id = newId()
  await sql`
    insert into mail_outbox (id, message_sealed, invitation_id, expires_at)
    values (${id}, ${secrets.seal(JSON.stringify(mail), placeOf(id))}, ${invitationId ?? null},
            now() + ${withinSeconds} * interval '1 second')`
  await requestOwnJob(sql, mailJob, id)
}

/** For an invitation that was withdrawn or answered, or has a new link. */
export const dropMailAbout = (sql: Sql, invitationIds: readonly string[]) =>
  sql`delete from mail_outbox where invitation_id = any(${invitationIds}::uuid[])`

const day = 24 * 60 * 60

/** Anyone can request mail to any address, so each address gets only a few messages a day. */
export async function isMailLeft(
  { kv }: Pick<Service, 'kv'>,
  kind: string,
  address: string,
  most: number,
  seconds = day,
): Promise<boolean> {
  return (await kv.count(`mail-${kind}:${fingerprint(canonicalEmail(address))}`, seconds)) <= most
}
