import { type Context, Hono } from 'hono'
import { z } from 'zod'
import { limitForm, NewPassword, newPasswordField, problemText, readForm, tokenField } from '../forms.ts'
import { page, pageHeaders } from '../html.ts'
import { oneTime } from '../lib/one-time.ts'
import type { Service } from '../service.ts'
import { changePassword, type LocalAccount } from '../users/local-accounts.ts'

/** Holds the hash from before, so that a link ends as soon as the password is set by another one. */
const link = oneTime<Pick<LocalAccount, 'id' | 'password_hash'>>('password-link', 24 * 60 * 60)

/** With it somebody chooses their password: whoever adds an account never knows it. */
export async function createPasswordLink(
  { kv }: Pick<Service, 'kv'>,
  publicUrl: string,
  { id, password_hash }: Pick<LocalAccount, 'id' | 'password_hash'>,
): Promise<string> {
  return `${publicUrl}/sign-in/set-password?token=${await link.issue(kv, { id, password_hash })}`
}

const Form = z
  .object({ token: z.string().max(100), password: NewPassword, repeated: z.string() })
  .refine(({ password, repeated }) => password === repeated, 'The two passwords differ')

export function servePasswordPages(service: Service): Hono {
  const app = new Hono()

  app.get('/set-password', async (c) => {
    const token = c.req.query('token') ?? ''
    if (!(await link.read(service.kv, token))) return showInvalid(c)
    return show(c, 200, 'Choose a password', form(token))
  })

  app.post('/set-password', limitForm, async (c) => {
    const given = await readForm(c)
    const result = Form.safeParse(given)
    if (!result.success) return show(c, 400, 'Choose a password', form(given.token, result.error.issues[0]?.message))
    const account = await link.take(service.kv, result.data.token)
    if (!account || !(await changePassword(service, account, result.data.password))) return showInvalid(c)
    return show(
      c,
      200,
      'Done',
      '<h1>Your password is set</h1><p>Whoever was signed in with your account is not any more. Go back to where you wanted to sign in, and enter the password there with your address.</p>',
    )
  })
  return app
}

const form = (token: string | undefined, problem?: string): string =>
  `<h1>Choose a password</h1><p>At least 12 characters. Nobody else gets to see it.</p>
   ${problemText(problem)}
   <form method="post" action="/sign-in/set-password">
     ${tokenField(token)}
     ${newPasswordField('password', 'Password')}
     ${newPasswordField('repeated', 'The same again')}
     <button>Set the password</button>
   </form>`

const show = (c: Context, status: 200 | 400 | 404, title: string, html: string) =>
  c.body(page(title, html), status, pageHeaders)

const showInvalid = (c: Context) =>
  show(
    c,
    404,
    'Link not valid',
    '<h1>This link is not valid</h1><p>It was used already, or it is older than a day. Ask whoever sent it for a new one.</p>',
  )
