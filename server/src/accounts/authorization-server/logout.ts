import type { KoaContextWithOIDC } from 'oidc-provider'
import type { Service } from '../../kernel/foundation/service.ts'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import { endSession } from '../access/access.ts'
import { signInCookie } from '../sign-in/external.ts'
import { recordHappening } from '../users/user-trail.ts'
import { formTarget } from './clients/redirect-uris.ts'

/** State that the library keeps between the confirmation page and its form. */
interface LogoutState {
  secret: string
  state?: string | undefined
  postLogoutRedirectUri?: string | undefined
}

/** Asks for confirmation, because any site can link here. Without a signed-in user, there is nothing to confirm. */
export function showLogout(service: Service, ctx: KoaContextWithOIDC): void {
  const { session } = ctx.oidc
  if (ctx.status !== 200 || !session) return
  const { secret, state, postLogoutRedirectUri: target } = session.state as unknown as LogoutState
  if (session.accountId) {
    const html = `<h1>Sign out?</h1>
      <p>This ends your session in this browser and revokes the access of every app that you allowed from it.</p>
      <form method="post" action="${escapeHtml(new URL(ctx.oidc.urlFor('end_session_confirm')).pathname)}">
        <input type="hidden" name="xsrf" value="${escapeHtml(secret)}"><button name="logout" value="yes">Sign out</button>
      </form>`
    show(ctx, 'Sign out', html, target)
  } else if (target) {
    const address = new URL(target)
    if (state !== undefined) address.searchParams.set('state', state)
    ctx.redirect(address.href)
  } else showLoggedOut(service, ctx)
}

export function showLoggedOut({ config }: Service, ctx: KoaContextWithOIDC): void {
  const provider = config.signInClient && ` You may still be signed in at ${new URL(config.signInClient.issuer).host}.`
  show(ctx, 'Signed out', `<h1>You’re signed out</h1><p>Your session in this browser has ended.${provider ?? ''}</p>`)
}

/** The library has ended the session; this revokes the tokens issued from it and clears the sign-in cookie. */
export async function finishLogout(service: Service, ctx: KoaContextWithOIDC): Promise<void> {
  const { session, params } = ctx.oidc
  if (ctx.status !== 303 || !params?.logout || !session) return
  if (session.accountId) {
    const data = { address: service.clientAddress(ctx.req) }
    await recordHappening(service, session.accountId, { action: 'user.signed_out', data })
  }
  await endSession(service, session.uid)
  const { name, options } = signInCookie(service.config)
  ctx.cookies.set(name, null, { ...options, signed: false })
}

function show(ctx: KoaContextWithOIDC, title: string, html: string, target?: string): void {
  ctx.set(pageHeaders)
  // Without a referrer, browsers don't send the origin that `ownPagesOnly` checks.
  ctx.set('referrer-policy', 'same-origin')
  // Browsers also check where a submitted form is redirected to.
  const formAction = `form-action 'self'${target ? ` ${formTarget(target)}` : ''}`
  ctx.set('content-security-policy', pageHeaders['content-security-policy'].replace("form-action 'self'", formAction))
  ctx.body = page(title, html)
}
