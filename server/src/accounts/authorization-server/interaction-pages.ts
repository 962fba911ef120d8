import { problemText, tokenField } from '../../kernel/http/forms.ts'
import { escapeHtml } from '../../kernel/http/pages.ts'
import { invitationList } from '../../organizations/organizations/invitation-pages.ts'
import type { SignInMethods } from '../sign-in/sign-in.ts'
import { describeTarget } from './clients/redirect-uris.ts'

/** Shared by all pages of a sign-in. */
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
h2 { margin: 24px 0 0; padding-top: 16px; font-size: 14px; line-height: 20px; font-weight: 600; border-top: 1px solid var(--line) }
dd ul { display: grid; gap: 8px; margin: 6px 0 0; padding: 0; list-style: none; font-weight: 450 }
dd li { position: relative; padding-left: 24px }
dd li::before { content: ""; position: absolute; left: 5px; top: 6px; width: 7px; height: 7px; rotate: 45deg; background: var(--accent); border-radius: 1px }
.choices { display: grid; gap: 8px; margin: 0 0 12px; padding: 0; list-style: none }
.choices li { display: flex; flex-wrap: wrap; align-items: center; gap: 10px }
.choices .button { margin: 0 } .demo { display: grid; grid-template-columns: auto 1fr; gap: 8px 12px; align-items: center; margin-top: 12px }
.demo button { margin: 0; justify-content: start } .demo p { margin: 0; font-size: 13px; line-height: 18px }
.decision { display: grid; grid-template-columns: 1fr 1fr; gap: 8px }`

const form = ({ path, token }: PageContext, step: string, html: string) =>
  `<form method="post" action="${escapeHtml(path)}/${step}">${tokenField(token)}${html}</form>`

export interface SignInView {
  client: ClientView
  methods: SignInMethods & { organizations: boolean }
  email: string
  /** Whether the user wants to choose another account. */
  asks: boolean
  /** HTML of the button for a passkey. */
  passkey: string
}

export function signInPage(context: PageContext, { client, methods, email, asks, passkey }: SignInView): string {
  const local = `
    <label>Email <input name="email" type="email" autocomplete="username" required maxlength="254" value="${escapeHtml(email)}"${email ? '' : ' autofocus'}></label>
    <label>Password <input name="password" type="password" autocomplete="current-password" required maxlength="200"${email ? ' autofocus' : ''}></label>
    <button>Sign in</button>`
  const demo = methods.demoUsers.map(
    (user) => `<button name="demo" value="${escapeHtml(user.email)}">${escapeHtml(user.email)}</button>
      <p>${escapeHtml(user.text)}</p>`,
  )
  return `<h1>Sign in</h1><p>to continue to ${strong(client.name)}</p>
    ${problemText(context.problem)}
    ${methods.external ? `<p><a href="${escapeHtml(context.path)}">Try again</a></p>` : ''}
    ${methods.local ? form(context, 'sign-in', local) : ''}
    ${methods.passkeys ? form(context, 'passkey', passkey) : ''}
    ${methods.organizations ? `<p><a href="${escapeHtml(context.path)}?way=organization${asks ? '&#38;account=other' : ''}">Sign in with your organization</a></p>` : ''}
    ${methods.resets ? '<p><a href="/sign-in/forgot-password">Forgot password?</a></p>' : ''}
    ${demo.length > 0 ? `<h2>Demo users</h2>${form(context, 'sign-in', `<div class="demo">${demo.join('')}</div>`)}` : ''}`
}

/** Asks for the address, whose domain leads to an organization's provider. */
export const organizationSignInPage = (
  context: PageContext,
  client: ClientView,
  { email, external, asks }: { email: string; external: boolean; asks: boolean },
): string =>
  `<h1>Sign in</h1><p>to continue to ${strong(client.name)}</p>
    ${problemText(context.problem)}
    ${form(
      context,
      'way',
      `<label>Email <input name="email" type="email" autocomplete="username" required maxlength="254" value="${escapeHtml(email)}" autofocus></label>
       ${asks ? '<input type="hidden" name="account" value="other">' : ''}
       <button>Continue</button>`,
    )}
    <p><a href="${escapeHtml(`${context.path}?${new URLSearchParams({ way: external ? 'external' : 'password', ...(asks && { account: 'other' }) })}`)}">Sign in another way</a></p>`

export const nextStepPage = (path: string): string =>
  `<h1>Sign in</h1><p>You’ll be redirected to your sign-in provider.</p><p><a class="button" href="${escapeHtml(path)}">Continue</a></p>`

/** The second step of a sign-in with a password. */
export const codePage = (context: PageContext, pending: string): string =>
  `<h1>Enter your code</h1><p>Open your authenticator app and enter the code for Inlay. If you don’t have the app, enter a recovery code.</p>
    ${problemText(context.problem)}
    ${form(
      context,
      'second-factor',
      `<input type="hidden" name="pending" value="${escapeHtml(pending)}">
       <label>Code <input name="code" autocomplete="one-time-code" required maxlength="30" spellcheck="false" autofocus></label>
       <button>Continue</button>`,
    )}
    <p><a href="${escapeHtml(context.path)}">Use another account</a></p>`

export function organizationPage(
  context: PageContext,
  client: ClientView,
  email: string,
  organizations: readonly OrganizationView[],
  invitations: Parameters<typeof invitationList>[0],
): string {
  const choices = organizations.map(
    ({ id, name, slug }) =>
      `<li><a class="button" href="?organization=${encodeURIComponent(id)}">${escapeHtml(name)}</a> <small>${escapeHtml(slug)}</small></li>`,
  )
  const asked = invitationList(invitations, (fields) => form(context, 'invitation', fields))
  const isFirst = choices.length === 0
  const create = `<label>New organization <input name="name" required maxlength="100" autocomplete="organization"${context.problem || (isFirst && !asked) ? ' autofocus' : ''}></label>
    <button${isFirst ? '' : ' class="quiet"'}>Create organization</button>`
  const heading = asked
    ? `<h1>You’re invited</h1>${asked}<h2>Choose an organization</h2>`
    : '<h1>Choose an organization</h1>'
  return `${heading}
    <p>${strong(client.name)} will work in the organization that you choose.</p>
    ${problemText(context.problem)}
    ${isFirst ? '<p>You don’t belong to an organization yet.</p>' : `<ul class="choices">${choices.join('')}</ul>`}
    ${form(context, 'organization', create)}
    <p><a href="?organization=none">Continue without an organization</a></p>
    ${otherAccount(email)}`
}

export interface ConsentView {
  client: ClientView
  /** Host of the client's metadata document; undefined if the client registered, since its name is then unverified. */
  provenHost: string | undefined
  email: string
  organization: OrganizationView | undefined
  resources: readonly ('api' | 'mcp')[]
}

const abilities = {
  api: ['read and change everything that you can, through the API'],
  mcp: ['use every tool that you can use, through MCP'],
}

/** Added for MCP when an organization is chosen. */
const hubAbilities = [
  'see and use the tools of the pages that you have open',
  'use your organization’s connectors as you',
]

export function consentPage(context: PageContext, view: ConsentView): string {
  const { client, provenHost, organization } = view
  const rows = [
    ['App', `${escapeHtml(client.name)}${provenHost ? ` (${escapeHtml(provenHost)})` : ''}`],
    ['You’ll be redirected to', escapeHtml(describeTarget(client.redirectUri))],
    ['Organization', organization ? `${escapeHtml(organization.name)} (${escapeHtml(organization.slug)})` : 'None'],
    [
      'This app will be able to',
      `<ul>${abilitiesOf(view)
        .map((text) => `<li>${text}</li>`)
        .join('')}</ul>`,
    ],
    ['Access ends', 'when you sign out of the app or leave the organization, or after one year'],
  ]
  const buttons = `<input type="hidden" name="organization" value="${escapeHtml(organization?.id ?? 'none')}">
    <div class="decision"><button name="decision" value="cancel">Cancel</button> <button name="decision" value="allow">Allow</button></div>`
  return `<h1>Allow ${escapeHtml(client.name)}?</h1>
    ${provenHost ? '' : '<p>The app chose this name itself. Allow it only if you just started this yourself.</p>'}
    ${problemText(context.problem)}
    <dl>${rows.map(([term, text]) => `<dt>${term}</dt><dd>${text}</dd>`).join('')}</dl>
    ${form(context, 'consent', buttons)}
    <p><a href="?organization=">Choose another organization</a></p>
    ${otherAccount(view.email)}`
}

const abilitiesOf = ({ resources, organization }: ConsentView): string[] => [
  ...resources.flatMap((name) => abilities[name]),
  ...(organization && resources.includes('mcp') ? hubAbilities : []),
]

const strong = (text: string) => `<strong>${escapeHtml(text)}</strong>`

const otherAccount = (email: string) =>
  `<p>Signed in as ${escapeHtml(email)}. <a href="?account=other">Use another account</a> or <a href="/oauth/logout">sign out</a>.</p>`
