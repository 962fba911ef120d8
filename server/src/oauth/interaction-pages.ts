import { problemText, tokenField } from '../forms.ts'
import { escapeHtml } from '../html.ts'
import { invitationList } from '../organizations/invitation-pages.ts'
import type { SignInMethods } from '../sign-in/sign-in.ts'
import { describeTarget } from './redirect-uris.ts'

/** What a page of a sign-in needs beside its own matter. */
export interface PageContext {
  /** `/oauth/interaction/<uid>` */
  path: string
  /** Single use. */
  token: string
  problem?: string | undefined
}

export interface ClientView {
  name: string
  redirectUri: string
}

export interface OrganizationView {
  id: string
  name: string
  slug: string
}

export const style = `
h2 { margin: 2rem 0 0; font-size: 1.1rem } ul { padding-left: 1.2rem } li { margin: .4rem 0 }
button + p { margin: .25rem 0 0 }`

const form = ({ path, token }: PageContext, step: string, html: string) =>
  `<form method="post" action="${escapeHtml(path)}/${step}">${tokenField(token)}${html}</form>`

export function signInPage(context: PageContext, client: ClientView, methods: SignInMethods, email: string): string {
  const local = `
    <label>Email <input name="email" type="email" autocomplete="username" required maxlength="254" value="${escapeHtml(email)}"></label>
    <label>Password <input name="password" type="password" autocomplete="current-password" required maxlength="200"></label>
    <button>Sign in</button>`
  const demo = methods.demoPeople.map(
    (person) => `<button name="demo" value="${escapeHtml(person.email)}">${escapeHtml(person.email)}</button>
      <p>${escapeHtml(person.text)}</p>`,
  )
  return `<h1>Sign in</h1><p>to continue to ${strong(client.name)}</p>
    ${problemText(context.problem)}
    ${methods.external ? `<p><a href="${escapeHtml(context.path)}">Try again</a></p>` : ''}
    ${methods.local ? form(context, 'sign-in', local) : ''}
    ${demo.length > 0 ? `<h2>Demo people</h2>${form(context, 'sign-in', demo.join(''))}` : ''}`
}

export function organizationPage(
  context: PageContext,
  client: ClientView,
  email: string,
  organizations: readonly OrganizationView[],
  invitations: Parameters<typeof invitationList>[0],
): string {
  const choices = organizations.map(
    ({ id, name, slug }) =>
      `<li><a href="?organization=${encodeURIComponent(id)}">${escapeHtml(name)}</a> <small>${escapeHtml(slug)}</small></li>`,
  )
  const asked = invitationList(invitations, (fields) => form(context, 'invitation', fields))
  const create = `<label>New organization <input name="name" required maxlength="100" autocomplete="organization"></label>
    <button>Create it</button>`
  const heading = asked
    ? `<h1>You’re invited</h1>${asked}<h2>Choose an organization</h2>`
    : '<h1>Choose an organization</h1>'
  return `${heading}
    <p>${strong(client.name)} will work in the one that you choose.</p>
    ${problemText(context.problem)}
    ${choices.length > 0 ? `<ul>${choices.join('')}</ul>` : '<p>You belong to none yet.</p>'}
    ${form(context, 'organization', create)}
    <p><a href="?organization=none">Continue without an organization</a></p>
    ${otherAccount(email)}`
}

export interface ConsentView {
  client: ClientView
  /** Whether the client proved who it is by an address of its own. */
  provenHost: string | undefined
  email: string
  organization: OrganizationView | undefined
  resources: readonly ('api' | 'mcp')[]
}

const abilities = {
  api: 'read and change, over the API, what you can',
  mcp: 'see and use the tools that you can, over MCP',
}

export function consentPage(context: PageContext, view: ConsentView): string {
  const { client, provenHost, organization } = view
  const rows = [
    ['Application', `${escapeHtml(client.name)}${provenHost ? ` (${escapeHtml(provenHost)})` : ''}`],
    ['Sends you on to', escapeHtml(describeTarget(client.redirectUri))],
    ['Organization', organization ? `${escapeHtml(organization.name)} (${escapeHtml(organization.slug)})` : 'none'],
    ['It may, as you', view.resources.map((name) => abilities[name]).join('<br>')],
    ['Until', 'you sign out of it or leave the organization, a year at most'],
  ]
  const buttons = `<input type="hidden" name="organization" value="${escapeHtml(organization?.id ?? 'none')}">
    <button name="decision" value="allow">Allow</button> <button name="decision" value="cancel">Cancel</button>`
  return `<h1>Allow ${escapeHtml(client.name)}?</h1>
    ${provenHost ? '' : '<p>The name is what the application says of itself. Allow it only if you just started this yourself.</p>'}
    ${problemText(context.problem)}
    <dl>${rows.map(([term, text]) => `<dt>${term}</dt><dd>${text}</dd>`).join('')}</dl>
    ${form(context, 'consent', buttons)}
    <p><a href="?organization=">Choose another organization</a></p>
    ${otherAccount(view.email)}`
}

const strong = (text: string) => `<strong>${escapeHtml(text)}</strong>`

const otherAccount = (email: string) =>
  `<p>Signed in as ${escapeHtml(email)}. <a href="?account=other">Use another account</a> or <a href="/oauth/logout">sign out</a></p>`
