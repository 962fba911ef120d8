import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { type SmtpServer, startSmtp } from '../../../test/smtp.ts'
import { queueMail } from './outbox.ts'

let app: TestService
let smtp: SmtpServer
beforeAll(async () => {
  smtp = await startSmtp()
  app = await startTestService(smtp.env)
})
afterAll(async () => {
  await app.close()
  await smtp.close()
})
beforeEach(() => {
  smtp.trouble = undefined
})

const mail = (to: string) => ({
  to,
  subject: 'Grüße\r\nBcc: everyone@example.com',
  text: 'Open https://inlay.example.com/secret',
  html: '<p>Hi</p>',
})
const query = <Row>(work: Parameters<typeof app.service.database.asService<Row[]>>[0]) =>
  app.service.database.asWorker(work)
const queue = (to: string, withinSeconds = 60) =>
  app.service.database.asService((sql) => queueMail(sql, app.service, mail(to), { withinSeconds }))
const waiting = () =>
  query<{ attempts: number; in_seconds: number; message_sealed: string }>(
    (sql) => sql`
      select attempts, round(extract(epoch from due_at - now()))::int as in_seconds, message_sealed
      from mail_outbox join jobs on kind = 'mail' and key = mail_outbox.id::text where lease is null`,
  )
const retryNow = () => query((sql) => sql`update jobs set due_at = now() where kind = 'mail' and lease is null`)
const isEmpty = () => vi.waitFor(async () => expect(await query((sql) => sql`select from mail_outbox`)).toEqual([]))

test('a mail is sent from the operator’s address as text and HTML, and then deleted', async () => {
  await queue('ada@example.com')
  const { from, to, headers, text, html } = await smtp.mailTo('ada@example.com')
  expect({ from, to }).toEqual({ from: 'inlay@example.com', to: ['ada@example.com'] })
  expect(headers).toMatchObject({
    from: 'Inlay <inlay@example.com>',
    to: 'ada@example.com',
    'auto-submitted': 'auto-generated',
    'message-id': expect.stringMatching(/^<[0-9a-f-]{36}@localhost>$/),
  })
  expect(headers, 'a subject adds no header').not.toHaveProperty('bcc')
  expect(text).toContain('https://inlay.example.com/secret')
  expect(html).toContain('<p>Hi</p>')
  await isEmpty()
})

test('an address can’t add recipients', async () => {
  await queue('ada@example.com, eve@example.com')
  await isEmpty()
  await queue('zoe@example.com')
  await smtp.mailTo('zoe@example.com')
  expect(smtp.received.flatMap(({ to }) => to)).not.toContain('eve@example.com')
})

test.each([
  ['closes the connection', () => 'hang up'],
  ['has a temporary problem', (command: string) => (command.startsWith('RCPT') ? '451 Try later' : undefined)],
  ['refuses the operator’s sender', (command: string) => (command.startsWith('MAIL') ? '550 Who are you?' : undefined)],
])('a mail waits, encrypted, and is retried while the server %s', async (what, trouble) => {
  const to = `${what.replaceAll(/\W/g, '-')}@example.com`
  smtp.trouble = trouble
  await queue(to)
  await vi.waitFor(async () => expect(await waiting()).toMatchObject([{ attempts: 1 }]))
  const [first] = await waiting()
  expect(first?.in_seconds).toBeLessThanOrEqual(5)
  expect(first?.message_sealed).toMatch(/^v1\./)
  await retryNow()
  await vi.waitFor(async () => expect(await waiting()).toMatchObject([{ attempts: 2 }]))
  expect((await waiting())[0]?.in_seconds, 'waits longer').toBeGreaterThan(5)
  smtp.trouble = undefined
  await retryNow()
  await smtp.mailTo(to)
  await isEmpty()
  expect(smtp.received.filter((received) => received.to.includes(to))).toHaveLength(1)
})

test('mails to addresses that the server puts off don’t delay others', async () => {
  smtp.trouble = (command) => (command.startsWith('RCPT') && command.includes('busy') ? '451 Try later' : undefined)
  for (let n = 0; n < 30; n += 1) await queue(`busy-${n}@example.com`)
  await queue('quick@example.com')
  await smtp.mailTo('quick@example.com')
  smtp.trouble = undefined
  await retryNow()
  await isEmpty()
})

test('a mail that the server refuses is dropped, and the log says so', async () => {
  smtp.trouble = (command) => (command.startsWith('RCPT') ? '550 No such user' : undefined)
  await queue('gone@example.com')
  await vi.waitFor(() => expect(app.logged()).toContain('The SMTP server refused a mail; dropped it'))
  await isEmpty()
})

test('a mail that can’t be sent in time is dropped, and the log says so', async () => {
  smtp.trouble = () => 'hang up'
  await queue('late@example.com')
  await vi.waitFor(async () => expect(await waiting()).toMatchObject([{ attempts: 1 }]))
  await query((sql) => sql`update mail_outbox set expires_at = now()`)
  await retryNow()
  await vi.waitFor(() => expect(app.logged()).toContain('Could not send a mail in time; dropped it'))
  await isEmpty()
})

test('the log contains no link of a mail', () => {
  expect(app.logged()).not.toContain('inlay.example.com/secret')
})
