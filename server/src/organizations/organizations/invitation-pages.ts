import { type Context, Hono } from 'hono'
import type { CallingUser } from '../../kernel/foundation/caller.ts'
import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Role } from '../../kernel/foundation/shapes.ts'
import type { BrowserSession, NodeEnv } from '../../kernel/http/browser-session.ts'
import { limitForm, ownPagesOnly, readForm, tokenField } from '../../kernel/http/forms.ts'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import type * as contract from './contract.ts'
import { acceptInvitation, declineInvitation, listMyInvitations } from './invitations.ts'

type Invitation = Output<typeof contract.listMyInvitations>[number]

/** Ties a form to the user that it was issued for. */
const formToken = oneTime<string>('invitations-form', 60 * 60)

/** `/invitations`: the link that an administrator sends. It shows the invitations of the user who opens it. */
export function serveInvitations(service: Service, session: BrowserSession): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()
  const { publicUrl } = service.config

  async function show(c: Context<NodeEnv>, user: CallingUser, notice = ''): Promise<Response> {
    const invitations = await listMyInvitations(service, { user })
    const token = await formToken.issue(service.kv, user.id)
    const form = (fields: string) => `<form method="post" action="/invitations">${tokenField(token)}${fields}</form>`
    const html = `<h1>Invitations</h1>
      ${notice && `<p role="status">${escapeHtml(notice)}</p>`}
      ${invitationList(invitations, form) || '<p>You have no open invitations.</p>'}
      <p>Signed in as ${escapeHtml(user.email)}. Was a different address invited? <a href="/oauth/logout">Sign out</a> and sign in with that one.</p>`
    // Without a referrer, browsers don't send the origin that `ownPagesOnly` checks.
    return c.body(page('Invitations', html), 200, { ...pageHeaders, 'referrer-policy': 'same-origin' })
  }

  app.get('/invitations', async (c) => {
    const user = await session.find(c)
    const link = c.req.query('state')
    if (user && link) return c.redirect(`/invitations/join?token=${encodeURIComponent(link)}`, 303)
    if (user) return c.req.query('code') ? c.redirect('/invitations', 303) : show(c, user)
    return c.req.query('error') ? showSignedOut(c) : c.redirect(session.signInUrl('/invitations'), 303)
  })

  app.post('/invitations', limitForm, ownPagesOnly(publicUrl), async (c) => {
    const form = await readForm(c)
    const user = await session.find(c)
    if (!user || (await formToken.take(service.kv, form.token ?? '')) !== user.id) return showSignedOut(c)
    return show(c, user, await decideInvitation(service, user, form))
  })
  return app
}

/** Shows who invites, the role, and the forms to decide. Names are shown with their slugs, which are unique. */
export const invitationList = (invitations: readonly Invitation[], form: (fields: string) => string): string =>
  invitations
    .map(({ id, organization, invited_by, role }) =>
      form(`<p id="invitation-${id}">${escapeHtml(invited_by)} invited you to join <strong>${escapeHtml(organization.name)}</strong>
        (${escapeHtml(organization.slug)}) as ${roleText(role)}.</p>
        <input type="hidden" name="invitation" value="${id}">
        <button name="decision" value="accept" aria-describedby="invitation-${id}">Accept</button> <button name="decision" value="decline" aria-describedby="invitation-${id}">Decline</button>`),
    )
    .join('')

export const roleText = (role: Role) => (role === 'admin' ? 'an admin' : 'a member')

/** Handles a form of `invitationList` and returns the result as a message for the user. */
export async function decideInvitation(
  service: Service,
  user: CallingUser,
  { invitation = '', decision }: Record<string, string>,
): Promise<string> {
  const known = (await listMyInvitations(service, { user })).find(({ id }) => id === invitation)
  if (!known || !isId(invitation)) return 'This invitation is no longer open.'
  const { name } = known.organization
  if (decision !== 'accept') {
    await declineInvitation(service, { user }, { id: invitation })
    return `You declined the invitation to ${name}.`
  }
  try {
    await acceptInvitation(service, { user }, { id: invitation })
  } catch (error) {
    if (error instanceof Failure && error.envelope.status === 403) return `${error.envelope.data?.reason}.`
    throw error
  }
  return `You’re now ${roleText(known.role)} of ${name}.`
}

const showSignedOut = (c: Context): Response =>
  c.body(
    page(
      'Sign in',
      '<h1>Sign in to see your invitations</h1><p>This page has expired, or you signed out.</p><p><a class="button" href="/invitations">Sign in</a></p>',
    ),
    400,
    pageHeaders,
  )
