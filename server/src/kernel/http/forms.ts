import type { HttpBindings } from '@hono/node-server'
import type { Context, Next } from 'hono'
import { failure } from '../lib/errors.ts'
import { readText } from './connections.ts'
import { escapeHtml, page, pageHeaders } from './pages.ts'

/** Maximum size of a form, in bytes. */
const formLimit = 16 * 1024

type Form = Record<string, string>

/**
 * Reads the form of every page that accepts one. It uses Node's request, because Hono's limit fails for bodies without
 * a declared length.
 */
export async function limitForm(c: Context, next: Next): Promise<void> {
  if (c.req.method === 'POST') {
    const { incoming } = c.env as HttpBindings
    if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(incoming.headers['content-type'] ?? '')) {
      throw failure(415, 'UNSUPPORTED_MEDIA_TYPE', 'Send the form as application/x-www-form-urlencoded')
    }
    const fields = new URLSearchParams(await readText(incoming, formLimit))
    // PostgreSQL can't store NUL. Lone surrogates can't occur, because the fields were decoded from UTF-8.
    const form: Form = Object.fromEntries([...fields].map(([name, value]) => [name, value.replaceAll('\0', '\ufffd')]))
    c.set('form', form)
  }
  await next()
}

export const readForm = async (c: Context): Promise<Form> => c.get('form')

/** Protects forms that act for the signed-in user: browsers send the origin of the page that submits a form. */
export const ownPagesOnly = (publicUrl: string) => async (c: Context, next: Next) => {
  if (c.req.header('origin') !== publicUrl) return refuseForeign(c)
  await next()
}

export const refuseForeign = (c: Context): Response =>
  c.body(
    page(
      'Request blocked',
      '<h1>This request was blocked</h1><p>Another website sent it, so nothing was changed. Go back to Inlay and try again.</p>',
    ),
    403,
    pageHeaders,
  )

export const tokenField = (token = ''): string => `<input type="hidden" name="token" value="${escapeHtml(token)}">`

export const problemText = (problem: string | undefined): string =>
  problem ? `<p role="alert">${escapeHtml(problem)}</p>` : ''
