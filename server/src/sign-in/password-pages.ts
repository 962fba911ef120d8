import { type Context, Hono } from 'hono'
import { z } from 'zod'
import type { Service } from '../foundation/service.ts'
import type { NodeEnv } from '../http/browser-session.ts'
import { limitForm, problemText, readForm, tokenField } from '../http/forms.ts'
import { page, pageHeaders } from '../http/pages.ts'
import { oneTime } from '../stores/one-time.ts'
import { changePassword, type LocalAccount } from '../users/local-accounts.ts'
import { newPasswordField, passwordProblem } from '../users/password-rules.ts'

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

const Form = z.object({ token: z.string().max(100), password: z.string(), repeated: z.string() })

export function servePasswordPages(service: Service): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()

  app.get('/set-password', async (c) => {
    const token = c.req.query('token') ?? ''
    if (!(await link.read(service.kv, token))) return showInvalid(c)
    return show(c, 200, 'Choose a password', form(token))
  })

  app.post('/set-password', limitForm, async (c) => {
    const given = Form.safeParse(await readForm(c))
    const owner = given.success ? await link.read(service.kv, given.data.token) : undefined
    if (!given.success || !owner) return showInvalid(c)
    const { token, password, repeated } = given.data
    const problem =
      passwordProblem(password, owner) ?? (password === repeated ? undefined : 'The passwords don’t match.')
    if (problem) return show(c, 400, 'Choose a password', form(token, problem))
    const account = await link.take(service.kv, token)
    if (!account || !(await changePassword(service, account, password))) return showInvalid(c)
    return show(
      c,
      200,
      'Done',
      '<h1>Your password is set</h1><p>You’ve been signed out everywhere. Return to the app that you want to use and sign in with your email address and the new password.</p><p><a class="button" href="/">Continue to Inlay</a></p>',
    )
  })
  return app
}

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
    '<h1>This link isn’t valid</h1><p>It was already used, or it has expired: a link works for one day. Ask the sender for a new one.</p>',
  )
