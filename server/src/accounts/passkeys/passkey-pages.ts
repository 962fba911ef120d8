import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Hono } from 'hono'
import type { CallingUser } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { problemText, tokenField } from '../../kernel/http/forms.ts'
import { escapeHtml } from '../../kernel/http/pages.ts'
import { SharedFile, sendFile } from '../../kernel/http/shared-file.ts'
import { creationOptions, requestOptions } from './ceremonies.ts'
import { longestPasskeyName, mostPasskeys, type Passkey } from './passkeys.ts'

/** The script of every page with a passkey form. */
export const passkeyScript = '/passkeys.js'

export function servePasskeyScript(): Hono<NodeEnv> {
  const text = readFileSync(join(import.meta.dirname, 'passkeys.js'), 'utf8')
  const file = new SharedFile(text, 'text/javascript; charset=utf-8')
  return new Hono<NodeEnv>().get(passkeyScript, (c) => sendFile(c, file, { 'cache-control': 'public, no-cache' }))
}

/** The part of a form that needs a passkey. The script shows it if the browser supports passkeys. */
const ceremony = (kind: 'create' | 'get', options: object, html: string): string =>
  `<div hidden data-passkey="${kind}" data-options="${escapeHtml(JSON.stringify(options))}">
     <input type="hidden" name="response">${html}<div data-problem></div>
   </div>`

/** For the form on the sign-in page whose token is the challenge. */
export const passkeySignIn = (service: Pick<Service, 'config'>, token: string): string =>
  ceremony('get', requestOptions(service, token), '<button class="quiet">Sign in with a passkey</button>')

export interface PasskeySection {
  user: CallingUser
  passkeys: readonly (Passkey & { credential_id: string })[]
  /** Single use, and the challenge of a new passkey. */
  token: string
  /** Where the user signs in again, if their sign-in is too old for changes. */
  signInUrl: string | undefined
  problem: string | undefined
}

/** The passkeys on the account page. */
export function passkeySection(service: Pick<Service, 'config'>, section: PasskeySection): string {
  const { passkeys, token, signInUrl, problem } = section
  const rows = passkeys.map(
    ({ id, name, created_at, last_used_at }) =>
      `<li><p><strong>${escapeHtml(name)}</strong><br>Added ${day(created_at)}, ${last_used_at ? `last used ${day(last_used_at)}` : 'not used yet'}</p>
       ${signInUrl ? '' : removeForm(id, name, token)}</li>`,
  )
  return `<h2>Passkeys</h2>
    <p>Sign in with your fingerprint, your face, or the PIN of your device or security key. A passkey replaces your password and the code from your authenticator app.</p>
    ${problemText(problem)}
    ${rows.length > 0 ? `<ul class="passkeys">${rows.join('')}</ul>` : ''}
    ${signInUrl ? `<p><a class="button" href="${escapeHtml(signInUrl)}">Sign in again to change passkeys</a></p>` : addForm(service, section)}`
}

const removeForm = (id: string, name: string, token: string): string =>
  `<form method="post" action="/account/passkeys/remove">${tokenField(token)}
     <input type="hidden" name="id" value="${escapeHtml(id)}">
     <button class="quiet" aria-label="Remove ${escapeHtml(name)}">Remove</button>
   </form>`

function addForm(service: Pick<Service, 'config'>, { user, passkeys, token }: PasskeySection): string {
  if (passkeys.length >= mostPasskeys) return `<p>You have ${mostPasskeys} passkeys. Remove one to add another.</p>`
  const options = creationOptions(service, user, { challenge: token, known: passkeys })
  const fields = `<label>Name <input name="name" required maxlength="${longestPasskeyName}" placeholder="My laptop" autocomplete="off"></label>
    <button>Add a passkey</button>`
  return `<form method="post" action="/account/passkeys/add">${tokenField(token)}${ceremony('create', options, fields)}</form>
    <noscript><p>Turn on JavaScript to add a passkey.</p></noscript>`
}

const day = (timestamp: string): string => escapeHtml(timestamp.slice(0, 10))

export const passkeyStyle = `
.passkeys { margin: 0; padding: 0; list-style: none }
.passkeys li { display: flex; align-items: center; justify-content: space-between; gap: 12px; padding: 10px 0; border-top: 1px solid var(--line) }
.passkeys p, .passkeys button { margin: 0 } .passkeys form { flex: none }`
