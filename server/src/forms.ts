import type { Context, Next } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { payloadTooLarge } from './errors.ts'
import { escapeHtml, page, pageHeaders } from './html.ts'
import { longestPassword, shortestPassword } from './users/password-rules.ts'

const formLimit = 16 * 1024

/** In front of every page that takes a form. */
export const limitForm = bodyLimit({
  maxSize: formLimit,
  onError: () => {
    throw payloadTooLarge(formLimit)
  },
})

/** In front of forms that act for whoever is signed in: browsers say which page a form was sent from. */
export const ownPagesOnly = (publicUrl: string) => async (c: Context, next: Next) => {
  if (c.req.header('origin') !== publicUrl) return refuseForeign(c)
  await next()
}

export const refuseForeign = (c: Context): Response =>
  c.body(page('Not from here', '<h1>This did not come from here</h1><p>Nothing was changed.</p>'), 403, pageHeaders)

export const readForm = async (c: Context): Promise<Record<string, string>> =>
  Object.fromEntries(Object.entries(await c.req.parseBody()).map(([name, value]) => [name, String(value)]))

export const newPasswordField = (name: string, label: string): string =>
  `<label>${label} <input name="${name}" type="password" autocomplete="new-password" required minlength="${shortestPassword}" maxlength="${longestPassword}"></label>`

export const tokenField = (token = ''): string => `<input type="hidden" name="token" value="${escapeHtml(token)}">`

export const problemText = (problem: string | undefined): string =>
  problem ? `<p role="alert">${escapeHtml(problem)}</p>` : ''
