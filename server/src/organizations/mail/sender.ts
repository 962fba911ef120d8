import nodemailer from 'nodemailer'
import type { Config } from '../../kernel/config/config.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { JobKind } from '../../kernel/jobs/jobs.ts'
import { isLocal } from '../../kernel/net/origins.ts'
import { type Mail, mailJob, placeOf } from './outbox.ts'

type MailSettings = NonNullable<Config['mail']>
type Parts = Pick<Service, 'config' | 'secrets' | 'log'>

const longestStepMs = 10_000
/** Longer than sending a mail takes. */
const longestSendMs = 90_000

/** A connection to the operator's SMTP server. It doesn't send a password or a mail without encryption. */
export function createTransport({ url }: MailSettings) {
  const { protocol, hostname, searchParams } = new URL(url)
  const mayBePlain = protocol === 'smtps:' || isLocal(hostname) || searchParams.has('requireTLS')
  return nodemailer.createTransport({
    url,
    ...(!mayBePlain && { requireTLS: true }),
    connectionTimeout: longestStepMs,
    greetingTimeout: longestStepMs,
    socketTimeout: 2 * longestStepMs,
    dnsTimeout: longestStepMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
}

/** Sends the mail in the outbox. */
export function createMailSender({ config, secrets, log }: Parts, settings: MailSettings): MailSender {
  const transport = createTransport(settings)
  const { hostname } = new URL(config.publicUrl)

  async function send(id: string, sealed: string): Promise<void> {
    const { to, ...contents } = JSON.parse(secrets.open(sealed, placeOf(id))) as Mail
    await transport.sendMail({
      ...contents,
      from: settings.from,
      to: { name: '', address: to },
      // The same for each attempt, so that mailboxes can recognize a mail that was sent twice.
      messageId: `<${id}@${hostname}>`,
      headers: { 'Auto-Submitted': 'auto-generated' },
    })
  }

  return {
    kind: {
      name: mailJob,
      atOnce: 1,
      longestMs: longestSendMs,
      judge: (error) => ({ isAway: !isAboutMail(error) }),
      async run(job) {
        const id = job.key
        const [mail] = await job.transaction(
          (sql) => sql<{ sealed: string; is_late: boolean }>`
            select message_sealed as sealed, expires_at <= now() as is_late from mail_outbox where id = ${id}`,
        )
        if (!mail) return 'done'
        if (mail.is_late) log.warn({ mail: id, attempts: job.failures }, 'Could not send a mail in time; dropped it')
        else {
          await send(id, mail.sealed).catch((error) => {
            if (!isRefusal(error)) throw error
            log.warn({ err: error, mail: id }, 'The SMTP server refused a mail; dropped it')
          })
        }
        return job.settle(async (sql) => {
          await sql`delete from mail_outbox where id = ${id}`
          return 'done'
        })
      },
    },
    close: () => transport.close(),
  }
}

interface MailSender {
  kind: JobKind
  close(): void
}

/** Whether the server will never accept this mail. Errors that are the operator's, such as a wrong password, pass. */
const isRefusal = (error: unknown): boolean => isAboutMail(error) && responseCodeOf(error) >= 500

/** Whether the server responded about this recipient or this mail, so that others can be sent. 421: it closes. */
function isAboutMail(error: unknown): boolean {
  const { command = '' } = error as { command?: string }
  return responseCodeOf(error) > 0 && responseCodeOf(error) !== 421 && ['RCPT TO', 'DATA'].includes(command)
}

const responseCodeOf = (error: unknown): number => (error as { responseCode?: number }).responseCode ?? 0
