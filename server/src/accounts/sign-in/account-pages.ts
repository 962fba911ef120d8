import { type Context, Hono } from 'hono'
import { renderSVG } from 'uqr'
import type { CallingUser } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { BrowserSession, NodeEnv } from '../../kernel/http/browser-session.ts'
import { limitForm, ownPagesOnly, problemText, readForm, tokenField } from '../../kernel/http/forms.ts'
import { escapeHtml, page, scriptedPageHeaders } from '../../kernel/http/pages.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { nameProblem, tidyName } from '../../kernel/lib/names.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import { passkeyScript, passkeySection, passkeyStyle } from '../passkeys/passkey-pages.ts'
import {
  type AddOutcome,
  addPasskey,
  listPasskeys,
  longestPasskeyName,
  mostPasskeys,
  removePasskey,
} from '../passkeys/passkeys.ts'
import { findLocalAccount } from '../users/local-accounts.ts'
import { describeWrongCode } from './code-form.ts'
import {
  beginEnrolment,
  checkCode,
  findSecondFactor,
  finishEnrolment,
  type NewKey,
  readEnrolment,
  removeSecondFactor,
} from './second-factor.ts'
import { signInMethods } from './sign-in.ts'

/** Ties a form to the user that it was issued for. */
const formToken = oneTime<string>('account-form', 60 * 60)

type Form = Record<string, string>

/** Why a form wasn't accepted. It is shown with the part of the page that the form belongs to. */
interface Problem {
  of: 'second factor' | 'passkeys'
  text: string
  status: 400 | 429
}

/** `/account`: where users with a password turn their second factor on and off, and add and remove passkeys. */
export function serveAccountPages(service: Service, session: BrowserSession): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()
  const { kv, config } = service

  /** Otherwise the user signs in at a provider, where a second factor and passkeys are set up. */
  const hasPassword = async ({ id, email }: CallingUser): Promise<boolean> =>
    signInMethods(service).local && (await findLocalAccount(service, email))?.id === id

  async function showAccount(c: Context, user: CallingUser, problem?: Problem) {
    const factor = await findSecondFactor(service, user.id)
    const formId = await formToken.issue(kv, user.id)
    const token = tokenField(formId)
    const isRecent = await session.isRecent(c)
    const problemOf = (part: Problem['of']) => (problem?.of === part ? problem.text : undefined)
    const html = factor
      ? `<p>Your second factor has been on since ${escapeHtml(factor.created_at.slice(0, 10))}. You have ${countCodes(factor.codes_left)} left.</p>
         ${problemText(problemOf('second factor'))}
         <form method="post" action="/account/second-factor/remove">${token}
           ${codeField('Code')}
           <button class="quiet">Turn off</button>
         </form>`
      : `<p>Protect your account with an authenticator app. You’ll enter a code from it whenever you sign in with your password.</p>
         ${problemText(problemOf('second factor'))}
         ${
           isRecent
             ? `<form method="post" action="/account/second-factor/start">${token}<button>Set up</button></form>`
             : `<p><a class="button" href="${escapeHtml(session.signInAgainUrl('/account'))}">Sign in again to set it up</a></p>`
         }`
    const passkeys = signInMethods(service).passkeys
      ? passkeySection(service, {
          user,
          passkeys: await listPasskeys(service, user.id),
          token: formId,
          signInUrl: isRecent ? undefined : session.signInAgainUrl('/account'),
          problem: problemOf('passkeys'),
        })
      : ''
    return show(c, problem?.status ?? 200, `<h1>Account</h1><h2>Second factor</h2>${html}${passkeys}${footer(user)}`)
  }

  app.get('/account', async (c) => {
    const user = await session.find(c)
    if (!user) return c.req.query('error') ? showSignedOut(c) : c.redirect(session.signInUrl('/account'), 303)
    if (c.req.query('code')) return c.redirect('/account', 303)
    if (await hasPassword(user)) return showAccount(c, user)
    return show(
      c,
      200,
      `<h1>Account</h1><p>You sign in at your organization’s sign-in provider. Set up passkeys and a second factor there.</p>${footer(user)}`,
    )
  })

  const onPost = (path: string, handle: (c: Context, user: CallingUser, form: Form) => Promise<Response>) => {
    app.post(`/account/${path}`, limitForm, ownPagesOnly(config.publicUrl), async (c) => {
      const form = await readForm(c)
      const user = await session.find(c)
      const isOwn = user && (await formToken.take(kv, form.token ?? '')) === user.id
      return isOwn && (await hasPassword(user)) ? handle(c, user, form) : showSignedOut(c)
    })
  }

  async function showEnrolment(c: Context, user: CallingUser, key: NewKey, problem?: string) {
    const token = tokenField(await formToken.issue(kv, user.id))
    return show(c, problem ? 400 : 200, enrolmentForm(key, token, problem))
  }

  /** An authenticator app locks its account, so an unattended browser must not be enough to add one. */
  const refuseStale = (c: Context, user: CallingUser) =>
    showAccount(c, user, { of: 'second factor', text: staleSignIn, status: 400 })

  onPost('second-factor/start', async (c, user) => {
    if (await findSecondFactor(service, user.id)) return showAccount(c, user)
    if (!(await session.isRecent(c))) return refuseStale(c, user)
    return showEnrolment(c, user, await beginEnrolment(service, user))
  })

  onPost('second-factor/confirm', async (c, user, { enrolment = '', code = '' }) => {
    if (!(await session.isRecent(c))) return refuseStale(c, user)
    const codes = await finishEnrolment(service, user, { token: enrolment, code })
    if (codes) return show(c, 200, recoveryPage(codes))
    const key = (await findSecondFactor(service, user.id)) ? undefined : await readEnrolment(service, user, enrolment)
    const problem = 'This code is incorrect. Check that the clock of your device is right, and enter the newest code.'
    return key ? showEnrolment(c, user, key, problem) : showAccount(c, user)
  })

  onPost('second-factor/remove', async (c, user, { code = '' }) => {
    const outcome = await checkCode(service, user.id, code)
    if (outcome.is !== 'right') {
      const { text, status } = describeWrongCode(outcome)
      return showAccount(c, user, { of: 'second factor', text, status })
    }
    await removeSecondFactor(service, user.id)
    return showAccount(c, user)
  })

  const refusePasskey = (c: Context, user: CallingUser, text: string) =>
    showAccount(c, user, { of: 'passkeys', text, status: 400 })

  onPost('passkeys/add', async (c, user, { token = '', name: given = '', response = '' }) => {
    if (!(await session.isRecent(c))) return refusePasskey(c, user, staleSignIn)
    const name = tidyName(given)
    if (name.length > longestPasskeyName || nameProblem(name)) {
      const problem = nameProblem(name) ?? ''
      return refusePasskey(c, user, `Enter a name of up to ${longestPasskeyName} characters. ${problem}`.trim())
    }
    const outcome = await addPasskey(service, user, { name, challenge: token, response })
    return outcome === 'added' ? c.redirect('/account', 303) : refusePasskey(c, user, passkeyProblems[outcome])
  })

  onPost('passkeys/remove', async (c, user, { id = '' }) => {
    if (!(await session.isRecent(c))) return refusePasskey(c, user, staleSignIn)
    if (isId(id)) await removePasskey(service, user.id, id)
    return c.redirect('/account', 303)
  })
  return app
}

const staleSignIn = 'You signed in more than 15 minutes ago. Sign in again, then repeat the change.'

const passkeyProblems: Record<Exclude<AddOutcome, 'added'>, string> = {
  refused: 'Your browser’s response wasn’t valid, so the passkey wasn’t added. Try again.',
  known: 'This passkey already belongs to an account, so it wasn’t added. Use another device or security key.',
  'too many': `You have ${mostPasskeys} passkeys already. Remove one to add another.`,
}

const countCodes = (count: number) => (count === 1 ? '1 recovery code' : `${count} recovery codes`)

const codeField = (label: string) =>
  `<label>${label} <input name="code" autocomplete="one-time-code" required maxlength="30" spellcheck="false"></label>`

const enrolmentForm = ({ token, key, uri }: NewKey, formField: string, problem?: string): string =>
  `<h1>Set up your authenticator app</h1>
   <p>Scan this code with an authenticator app, or enter the key by hand. Then enter the code that the app shows.</p>
   <div role="img" aria-label="QR code for your authenticator app" class="qr">${renderSVG(uri, { border: 2 })}</div>
   <p>Key: <code>${key.replace(/(.{4})(?=.)/g, '$1 ')}</code></p>
   ${problemText(problem)}
   <form method="post" action="/account/second-factor/confirm">${formField}
     <input type="hidden" name="enrolment" value="${escapeHtml(token)}">
     ${codeField('Code')}
     <button>Turn on</button>
   </form>
   <p><a href="/account">Cancel</a></p>`

const recoveryPage = (codes: readonly string[]): string =>
  `<h1>Your second factor is on</h1>
   <p>Keep these recovery codes in a safe place. Each lets you sign in once without your authenticator app. They aren’t shown again.</p>
   <pre>${codes.join('\n')}</pre>
   <p><a class="button" href="/account">Done</a></p>`

const footer = ({ email }: CallingUser) =>
  `<p>Signed in as ${escapeHtml(email)}. <a href="/">Back to Inlay</a> or <a href="/oauth/logout">sign out</a>.</p>`

const style = `.qr svg { display: block; width: 200px; height: 200px; margin: 0 0 12px; border-radius: 8px }
h2 { margin: 24px 0 4px; padding-top: 16px; font-size: 14px; line-height: 20px; font-weight: 600; border-top: 1px solid var(--line) }
ul + form, form + p, .passkeys + p { margin-top: 16px }${passkeyStyle}`

// Without a referrer, browsers don't send the origin that `ownPagesOnly` checks.
const show = (c: Context, status: 200 | 400 | 429, html: string) =>
  c.body(page('Account', html, { style, script: passkeyScript }), status, {
    ...scriptedPageHeaders,
    'referrer-policy': 'same-origin',
  })

const showSignedOut = (c: Context) =>
  show(
    c,
    400,
    '<h1>Sign in to change your account</h1><p>This page has expired, or you signed out. Nothing was changed.</p><p><a class="button" href="/account">Sign in</a></p>',
  )
