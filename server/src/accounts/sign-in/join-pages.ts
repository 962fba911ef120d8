import { type Context, Hono } from 'hono'
import { z } from 'zod'
import type { Service } from '../../kernel/foundation/service.ts'
import { name } from '../../kernel/foundation/shapes.ts'
import type { BrowserSession, NodeEnv } from '../../kernel/http/browser-session.ts'
import { limitForm, ownPagesOnly, problemText, readForm, tokenField } from '../../kernel/http/forms.ts'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { roleText } from '../../organizations/organizations/invitation-pages.ts'
import {
  acceptFor,
  findInvitationByLink,
  findVerifiedEmail,
  type LinkedInvitation,
} from '../../organizations/organizations/invitations.ts'
import { EmailTaken, findLocalAccount, insertLocalUser } from '../users/local-accounts.ts'
import { newPasswordField, passwordProblem } from '../users/password-rules.ts'
import { hashPassword } from '../users/passwords.ts'
import { expectNewUser, signInMethods } from './sign-in.ts'
import { limitVisits } from './visit-limits.ts'

const path = '/invitations/join'

const Account = z.object({
  token: z.string().max(100),
  name: name(100, { empty: 'Enter your name', long: 'Your name is too long' }),
  password: z.string(),
  repeated: z.string(),
})

/**
 * The link of an invitation. Users sign in, or create their account, and join. An account of a link that wasn't mailed
 * has an unverified address, because an administrator could open the link of an invitation to somebody else's: such an
 * account gets nothing that others give to the owner of the address.
 */
export function serveJoinPages(service: Service, session: BrowserSession): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()
  const { config, database, changes } = service
  const forms = [limitForm, ownPagesOnly(config.publicUrl), limitVisits(service)] as const

  app.get(path, limitVisits(service), async (c) => {
    const token = c.req.query('token') ?? ''
    const invitation = await findInvitationByLink(service, token)
    if (!invitation) return showInvalid(c)
    const user = await session.find(c)
    if (user) {
      const isJoinable = await isUnverifiedInvitee(user.id, invitation)
      return isJoinable ? show(c, 200, confirmation(token, invitation)) : c.redirect('/invitations', 303)
    }
    const isNew = signInMethods(service).local && !(await findLocalAccount(service, invitation.email))
    return isNew
      ? show(c, 200, accountForm({ token }, invitation))
      : c.redirect(session.signInUrl('/invitations', token))
  })

  app.post(`${path}/new-account`, ...forms, async (c) => {
    const form = await readForm(c)
    const token = form.token ?? ''
    const invitation = await findInvitationByLink(service, token)
    if (!invitation || !signInMethods(service).local) return showInvalid(c)
    const given = Account.safeParse(form)
    const problem = given.success ? findProblem(given.data, invitation) : given.error.issues[0]?.message
    if (!given.success || problem) return show(c, 400, accountForm(form, invitation, problem))
    const passwordHash = await hashPassword(given.data.password)
    const { id, email, organization, is_mailed: isVerified } = invitation
    try {
      await database.asOrg(organization.id, async (sql) => {
        const { id: userId } = await insertLocalUser(sql, { email, name: given.data.name, passwordHash, isVerified })
        await acceptFor(sql, organization.id, { id, email, userId })
      })
    } catch (error) {
      if (error instanceof EmailTaken) return c.redirect(session.signInUrl('/invitations', token), 303)
      if (isGone(error)) return showInvalid(c)
      throw error
    }
    if (!(await session.find(c))) await expectNewUser(service, c, email)
    return showJoined(c, invitation)
  })

  app.post(path, ...forms, async (c) => {
    const { token = '' } = await readForm(c)
    const invitation = await findInvitationByLink(service, token)
    const user = await session.find(c)
    if (!invitation || !user || !(await isUnverifiedInvitee(user.id, invitation))) return showInvalid(c)
    const { id, email, organization } = invitation
    try {
      await database.asOrg(organization.id, (sql) => acceptFor(sql, organization.id, { id, email, userId: user.id }))
    } catch (error) {
      if (isGone(error)) return showInvalid(c)
      throw error
    }
    changes.announce(topics.user(user.id))
    return showJoined(c, invitation)
  })

  /** The others find the invitation on the page with all their invitations. */
  const isUnverifiedInvitee = async (userId: string, { email }: LinkedInvitation): Promise<boolean> =>
    (await findLocalAccount(service, email))?.id === userId && (await findVerifiedEmail(database, userId)) === undefined

  return app
}

/** Another request was faster, or an administrator withdrew it. */
const isGone = (error: unknown): boolean => error instanceof Failure && [403, 404].includes(error.envelope.status)

const findProblem = ({ name, password, repeated }: z.infer<typeof Account>, { email }: LinkedInvitation) =>
  passwordProblem(password, { email, name }) ?? (password === repeated ? undefined : 'The passwords don’t match.')

const introduce = ({ invited_by, organization, role }: LinkedInvitation): string =>
  `<p>${escapeHtml(invited_by)} invited you to join <strong>${escapeHtml(organization.name)}</strong> (${escapeHtml(organization.slug)}) as ${roleText(role)}.</p>`

const accountForm = (values: Record<string, string>, invitation: LinkedInvitation, problem?: string): string =>
  `<h1>Create your account</h1>${introduce(invitation)}
   ${problemText(problem)}
   <form method="post" action="${path}/new-account">
     ${tokenField(values.token)}
     <label>Email <input value="${escapeHtml(invitation.email)}" autocomplete="username" readonly></label>
     <label>Your name <input name="name" autocomplete="name" required maxlength="100" value="${escapeHtml(values.name ?? '')}" autofocus></label>
     ${newPasswordField('password', 'Password <small>at least 12 characters</small>')}
     ${newPasswordField('repeated', 'Confirm password')}
     <button>Create account and join</button>
   </form>`

const confirmation = (token: string, invitation: LinkedInvitation): string =>
  `<h1>Join ${escapeHtml(invitation.organization.name)}?</h1>${introduce(invitation)}
   <form method="post" action="${path}">${tokenField(token)}<button>Join</button></form>
   <p>Signed in as ${escapeHtml(invitation.email)}.</p>`

// Without a referrer, browsers don't send the origin that `ownPagesOnly` checks.
const show = (c: Context, status: 200 | 400 | 404, html: string) =>
  c.body(page('Invitation', html), status, { ...pageHeaders, 'referrer-policy': 'same-origin' })

const showJoined = (c: Context, { organization, role }: LinkedInvitation) =>
  show(
    c,
    200,
    `<h1>Welcome to ${escapeHtml(organization.name)}</h1><p role="status">You’re now ${roleText(role)} of ${escapeHtml(organization.name)}.</p>
     <p><a class="button" href="/o/${escapeHtml(organization.slug)}">Continue to Inlay</a></p>`,
  )

const showInvalid = (c: Context) =>
  show(
    c,
    404,
    '<h1>This link isn’t valid</h1><p>It was already used, or the invitation was withdrawn, renewed or has expired. Ask the administrator who invited you for a new link.</p>',
  )
