import { type Context, Hono } from 'hono'
import { z } from 'zod'
import type { Service } from '../../kernel/foundation/service.ts'
import { name } from '../../kernel/foundation/shapes.ts'
import { limitForm, problemText, readForm, tokenField } from '../../kernel/http/forms.ts'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import { foundOrganization } from '../../organizations/organizations/organizations.ts'
import { addLocalUser } from '../users/local-accounts.ts'
import { newPasswordField, passwordProblem } from '../users/password-rules.ts'

/**
 * Sets up the first administrator of a production installation. The server prints the link, so only the operator sees
 * it. It expires once it was used, after a day, or once any user exists.
 */
const link = oneTime<true>('setup-link', 24 * 60 * 60)

export async function createSetupLink(service: Service): Promise<string | undefined> {
  // With a sign-in provider, users sign in there and create their organization themselves.
  if (service.config.signInClient || (await hasUsers(service))) return undefined
  return `${service.config.publicUrl}/setup?token=${await link.issue(service.kv, true)}`
}

const hasUsers = async ({ database }: Service) =>
  (await database.asService((sql) => sql`select from users limit 1`)).length > 0

const Form = z.object({
  token: z.string().max(100),
  name: name(100, { empty: 'Enter your name', long: 'Your name is too long' }),
  email: z.email('Enter an email address').max(254),
  password: z.string(),
  organization: name(100, { empty: 'Enter the organization’s name', long: 'The organization’s name is too long' }),
})

export function serveSetup(service: Service): Hono {
  const app = new Hono()
  const show = (c: Context, status: 200 | 400 | 404, title: string, html: string) =>
    c.body(page(title, html), status, pageHeaders)
  const showUsed = (c: Context) =>
    show(
      c,
      404,
      'Link not valid',
      '<h1>This link isn’t valid</h1><p>It was already used, or it has expired: a link works for one day. If no user has been set up yet, restart the server to print a new link.</p>',
    )

  app.get('/', async (c) => {
    const token = c.req.query('token') ?? ''
    if (!(await link.read(service.kv, token))) return showUsed(c)
    return show(c, 200, 'Set up', form({ token }))
  })

  app.post('/', limitForm, async (c) => {
    const given = await readForm(c)
    const result = Form.safeParse(given)
    const problem = result.success
      ? passwordProblem(result.data.password, result.data)
      : result.error.issues[0]?.message
    if (!result.success || problem) return show(c, 400, 'Set up', form(given, problem))
    const { token, name, email, password, organization } = result.data
    if (!(await link.take(service.kv, token)) || (await hasUsers(service))) return showUsed(c)
    const founder = await addLocalUser(service, { email, name, password })
    const { slug } = await foundOrganization(service, { name: organization, founder })
    return show(
      c,
      200,
      'Done',
      `<h1>${escapeHtml(organization)} is ready</h1><p>${escapeHtml(email)} is its administrator. Sign in with your new password to set up the agent.</p>
       <p><a class="button" href="/o/${escapeHtml(slug)}">Open the dashboard</a></p>
       <p>For scripts, this prints an access token on the server:</p>
       <pre>npx inlay token --email ${escapeHtml(email)} --org ${escapeHtml(slug)}</pre>`,
    )
  })
  return app
}

function form(values: Record<string, string>, problem?: string): string {
  const value = (name: string) => escapeHtml(values[name] ?? '')
  return `<h1>Set up Inlay</h1><p>This creates an organization with you as its first administrator.</p>
    ${problemText(problem)}
    <form method="post" action="/setup">
      ${tokenField(values.token)}
      <label>Your name <input name="name" autocomplete="name" required maxlength="100" value="${value('name')}" autofocus></label>
      <label>Email <input name="email" type="email" autocomplete="email" required maxlength="254" value="${value('email')}"></label>
      ${newPasswordField('password', 'Password <small>at least 12 characters</small>')}
      <label>Organization <input name="organization" autocomplete="organization" required maxlength="100" value="${value('organization')}"></label>
      <button>Create organization</button>
    </form>`
}
