import nodemailer from 'nodemailer'
import type { Config } from '../../kernel/config/config.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { keepDoing, type Repeated } from '../../kernel/lib/clock.ts'
import { isLocal } from '../../kernel/net/origins.ts'
import { type Mail, placeOf } from './outbox.ts'

type MailSettings = NonNullable<Config['mail']>
type Parts = Pick<Service, 'config' | 'database' | 'secrets' | 'log'>

const everyMs = 2_000
/** Longer than sending a mail takes. After a crash, another node waits for it. */
const leaseSeconds = 90
const longestStepMs = 10_000
const firstRetrySeconds = 5
const lastRetrySeconds = 15 * 60

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

interface Claimed {
  id: string
  message_sealed: string
  attempts: number
}

/** Sends the mail in the outbox, also after crashes and while the SMTP server is unreachable. */
export function createMailSender(parts: Parts, repeatMs = everyMs): Pick<Repeated, 'close'> {
  const { config, database, secrets, log } = parts
  const { mail: settings } = config
  if (!settings) return { close: async () => undefined }
  const transport = createTransport(settings)
  const { hostname } = new URL(config.publicUrl)
  let isClosed = false

  /** Resolves to false if the SMTP server can't be used at the moment. */
  async function send({ id, message_sealed, attempts }: Claimed): Promise<boolean> {
    try {
      const { to, ...contents } = JSON.parse(secrets.open(message_sealed, placeOf(id))) as Mail
      await transport.sendMail({
        ...contents,
        from: settings?.from,
        to: { name: '', address: to },
        // The same for each attempt, so that mailboxes can recognize a mail that was sent twice.
        messageId: `<${id}@${hostname}>`,
        headers: { 'Auto-Submitted': 'auto-generated' },
      })
      await database.asService((sql) => sql`delete from mail_outbox where id = ${id}`)
      return true
    } catch (error) {
      if (isRefusal(error)) {
        log.warn({ err: error, mail: id }, 'The SMTP server refused a mail; dropped it')
        await database.asService((sql) => sql`delete from mail_outbox where id = ${id}`)
        return true
      }
      const seconds = Math.min(firstRetrySeconds * 2 ** Math.min(attempts, 20), lastRetrySeconds)
      log.warn({ err: error, mail: id, seconds }, 'Could not send a mail; retrying')
      await database.asService(
        (sql) => sql`
          update mail_outbox
          set leased_until = null, attempts = attempts + 1, due_at = now() + ${seconds} * interval '1 second'
          where id = ${id}`,
      )
      return false
    }
  }

  async function sendDue(): Promise<void> {
    const late = await database.asService(
      (sql) => sql<{ id: string; attempts: number }>`
        delete from mail_outbox
        where expires_at <= now() and (leased_until is null or leased_until <= now()) returning id, attempts`,
    )
    for (const { id, attempts } of late) log.warn({ mail: id, attempts }, 'Could not send a mail in time; dropped it')
    while (!isClosed) {
      const [claimed] = await database.asService(
        (sql) => sql<Claimed>`
          update mail_outbox set leased_until = now() + ${leaseSeconds} * interval '1 second'
          where id = (
            select id from mail_outbox where due_at <= now() and (leased_until is null or leased_until <= now())
            order by due_at limit 1 for update skip locked)
          returning id, message_sealed, attempts`,
      )
      // While the server is away, one attempt per repetition is enough to notice when it is back.
      if (!claimed || !(await send(claimed))) return
    }
  }

  const repeated = keepDoing(
    () => sendDue().catch((error) => log.warn({ err: error }, 'Could not read the outbox for mail; retrying')),
    repeatMs,
  )
  return {
    async close() {
      isClosed = true
      await repeated.close()
      transport.close()
    },
  }
}

/** Whether the server will never accept this mail. Errors that are the operator's, such as a wrong password, pass. */
function isRefusal(error: unknown): boolean {
  const { responseCode = 0, command = '' } = error as { responseCode?: number; command?: string }
  return responseCode >= 500 && ['RCPT TO', 'DATA'].includes(command)
}
