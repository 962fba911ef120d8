import type { HttpBindings } from '@hono/node-server'
import type { Context, Next } from 'hono'
import { failure } from '../lib/errors.ts'
import { readText } from './connections.ts'
import { escapeHtml, page, pageHeaders } from './pages.ts'

/** Maximum size of a form, in bytes. */
const formLimit = 16 * 1024

type Form = Record<string, string>

/**
 * In front of every page that takes a form. It reads the form from Node's own request: the router's limit fails on bodies
 * without a declared length.
 */
export async function limitForm(c: Context, next: Next): Promise<void> {
  if (c.req.method === 'POST') {
    const { incoming } = c.env as HttpBindings
    if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(incoming.headers['content-type'] ?? '')) {
      throw failure(415, 'UNSUPPORTED_MEDIA_TYPE', 'Send the form as application/x-www-form-urlencoded')
    }
    const form: Form = Object.fromEntries(new URLSearchParams(await readText(incoming, formLimit)))
    c.set('form', form)
  }
  await next()
}

export const readForm = async (c: Context): Promise<Form> => c.get('form')

/** In front of forms that act for whoever is signed in: browsers say which page a form was sent from. */
export const ownPagesOnly = (publicUrl: string) => async (c: Context, next: Next) => {
  if (c.req.header('origin') !== publicUrl) return refuseForeign(c)
  await next()
}

export const refuseForeign = (c: Context): Response =>
  c.body(page('Not from here', '<h1>This did not come from here</h1><p>Nothing was changed.</p>'), 403, pageHeaders)

export const tokenField = (token = ''): string => `<input type="hidden" name="token" value="${escapeHtml(token)}">`

export const problemText = (problem: string | undefined): string =>
  problem ? `<p role="alert">${escapeHtml(problem)}</p>` : ''
