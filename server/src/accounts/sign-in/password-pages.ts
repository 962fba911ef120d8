import { type Context, Hono } from 'hono'
import { z } from 'zod'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Role } from '../../kernel/foundation/shapes.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { limitForm, ownPagesOnly, problemText, readForm, tokenField } from '../../kernel/http/forms.ts'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import { writePasswordReset } from '../../organizations/mail/messages.ts'
import { isMailLeft, queueMail } from '../../organizations/mail/outbox.ts'
import { roleText } from '../../organizations/organizations/invitation-pages.ts'
import { changePassword, findLocalAccount, type LocalAccount } from '../users/local-accounts.ts'
import { newPasswordField, passwordProblem } from '../users/password-rules.ts'
import { recordForUser } from '../users/user-trail.ts'
import { limitVisits } from './visit-limits.ts'

type LinkedAccount = Pick<LocalAccount, 'id' | 'email' | 'name' | 'password_hash'>

/** Holds the previous hash, so that a link stops working once the password is set with another link. */
const link = oneTime<LinkedAccount>('password-link', 24 * 60 * 60)

/** With this link, users choose their own password, so the operator who adds an account never sees it. */
export async function createPasswordLink(
  { kv }: Pick<Service, 'kv'>,
  publicUrl: string,
  { id, email, name, password_hash }: LinkedAccount,
): Promise<string> {
  return `${publicUrl}/sign-in/set-password?token=${await link.issue(kv, { id, email, name, password_hash })}`
}

/** The link that is mailed to users who forgot their password. */
const reset = oneTime<LinkedAccount>('password-reset', 60 * 60, 10_000)

const hour = 60 * 60
/** Per hour. Requests beyond them are refused for a network, and ignored for an address, which nobody can notice. */
const mostResets = { network: 20, address: 3 }

const Form = z.object({ token: z.string().max(100), password: z.string(), repeated: z.string() })

export function servePasswordPages(service: Service): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()

  app.get('/set-password', async (c) => {
    const token = c.req.query('token') ?? ''
    if (!(await readLink(service, token))) return showInvalid(c)
    return show(c, 200, 'Choose a password', form(token))
  })

  app.post('/set-password', limitForm, async (c) => {
    const given = Form.safeParse(await readForm(c))
    const owner = given.success ? await readLink(service, given.data.token) : undefined
    if (!given.success || !owner) return showInvalid(c)
    const { token, password, repeated } = given.data
    const problem =
      passwordProblem(password, owner) ?? (password === repeated ? undefined : 'The passwords don’t match.')
    if (problem) return show(c, 400, 'Choose a password', form(token, problem))
    const account = (await link.take(service.kv, token)) ?? (await reset.take(service.kv, token))
    const outcome = account && (await changePassword(service, account, password))
    if (!account || !outcome) return showInvalid(c)
    const places = outcome === 'proven' ? await listPlaces(service, account) : ''
    return show(
      c,
      200,
      'Done',
      `<h1>Your password is set</h1><p>You’ve been signed out everywhere. Return to the app that you want to use and sign in with your email address and the new password.</p>${places}<p><a class="button" href="/">Continue to Inlay</a></p>`,
    )
  })
  if (service.config.mail) serveForgottenPasswords(app, service)
  return app
}

/** Somebody else may have set up the account with a link that wasn't mailed, and joined or created organizations. */
async function listPlaces({ database }: Service, { id }: LinkedAccount): Promise<string> {
  const places = await database.asUser(
    id,
    (sql) => sql<{ name: string; slug: string; role: Role }>`
      select o.name, o.slug, m.role from members m join organizations o on o.id = m.organization_id
      where m.user_id = ${id} order by m.created_at, m.id limit 100`,
  )
  if (places.length === 0) return ''
  const list = places.map(
    ({ name, slug, role }) => `<li>${escapeHtml(name)} (${escapeHtml(slug)}), as ${roleText(role)}</li>`,
  )
  return `<p>Your address hadn’t been verified until now, so someone else may have used this account. We’ve removed its name, passkeys and authenticator app. It’s a member of these organizations:</p><ul>${list.join('')}</ul>
    <p>If you don’t want to be a member of one of them, sign in, open it, and choose <strong>Members</strong>, then <strong>Leave</strong>. If you’re its last admin, delete it under <strong>Settings</strong>.</p>`
}

const readLink = async ({ kv }: Service, token: string): Promise<LinkedAccount | undefined> =>
  (await link.read(kv, token)) ?? (await reset.read(kv, token))

function serveForgottenPasswords(app: Hono<NodeEnv>, service: Service): void {
  const { config, kv, log, clientAddress } = service

  app.get('/forgot-password', (c) => showForm(c, 200, forgottenForm()))

  app.post('/forgot-password', limitForm, ownPagesOnly(config.publicUrl), limitVisits(service), async (c) => {
    const given = z
      .email()
      .max(254)
      .toLowerCase()
      .safeParse((await readForm(c)).email)
    if (!given.success) return showForm(c, 400, forgottenForm('Enter your email address.'))
    const address = clientAddress(c.env.incoming)
    if ((await kv.count(`password-resets:${fingerprint(address)}`, hour)) > mostResets.network) {
      const problem = 'Your network has asked for too many new passwords. Try again in an hour.'
      return showForm(c, 429, forgottenForm(problem))
    }
    // The response doesn't wait for it: its timing would reveal which accounts exist.
    mailReset(service, given.data, address).catch((error) =>
      log.error({ err: error }, 'could not create a link for a new password'),
    )
    return showForm(c, 200, forgottenAnswer(given.data))
  })
}

async function mailReset(service: Service, email: string, address: string): Promise<void> {
  if (!(await isMailLeft(service, 'password-resets-to', email, mostResets.address, hour))) return
  const account = await findLocalAccount(service, email)
  if (!account) return
  const { id, name, password_hash } = account
  const token = await reset.issue(service.kv, { id, email, name, password_hash })
  const url = `${service.config.publicUrl}/sign-in/set-password?token=${token}`
  await service.database.asService(async (sql) => {
    await queueMail(sql, service, writePasswordReset({ to: email, url }), { withinSeconds: hour })
    await recordForUser(sql, id, { action: 'user.password_reset_requested', actor: 'sign-in', data: { address } })
  })
}

const forgottenForm = (problem?: string): string =>
  `<h1>Forgot your password?</h1><p>Enter the email address of your account. We’ll mail you a link to set a new password.</p>
   ${problemText(problem)}
   <form method="post" action="/sign-in/forgot-password">
     <label>Email <input name="email" type="email" autocomplete="username" required maxlength="254" autofocus></label>
     <button>Send link</button>
   </form>`

const forgottenAnswer = (email: string): string =>
  `<h1>Check your mail</h1><p role="status">If ${escapeHtml(email)} has an account here, we’re mailing a link to it. The link works once, within one hour.</p>
   <p>If nothing arrives within a few minutes, check your spam folder and the spelling of the address.</p>`

// Without a referrer, browsers don't send the origin that `ownPagesOnly` checks.
const showForm = (c: Context, status: 200 | 400 | 429, html: string) =>
  c.body(page('Forgot password', html), status, { ...pageHeaders, 'referrer-policy': 'same-origin' })

const form = (token: string | undefined, problem?: string): string =>
  `<h1>Choose a password</h1><p>Use at least 12 characters, such as several unrelated words.</p>
   ${problemText(problem)}
   <form method="post" action="/sign-in/set-password">
     ${tokenField(token)}
     ${newPasswordField('password', 'Password', { autofocus: true })}
     ${newPasswordField('repeated', 'Confirm password')}
     <button>Set password</button>
   </form>`

const show = (c: Context, status: 200 | 400 | 404, title: string, html: string) =>
  c.body(page(title, html), status, pageHeaders)

const showInvalid = (c: Context) =>
  show(
    c,
    404,
    'Link not valid',
    '<h1>This link isn’t valid</h1><p>It was already used, or it has expired: a link works for one day, or for one hour if you asked for it yourself. Ask for a new one.</p>',
  )
