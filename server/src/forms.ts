import type { Context } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { z } from 'zod'
import { payloadTooLarge } from './errors.ts'
import { escapeHtml } from './html.ts'

const formLimit = 16 * 1024

/** In front of every page that takes a form. */
export const limitForm = bodyLimit({
  maxSize: formLimit,
  onError: () => {
    throw payloadTooLarge(formLimit)
  },
})

export const readForm = async (c: Context): Promise<Record<string, string>> =>
  Object.fromEntries(Object.entries(await c.req.parseBody()).map(([name, value]) => [name, String(value)]))

export const NewPassword = z.string().min(12, 'Use at least 12 characters').max(200, 'Use at most 200 characters')

export const newPasswordField = (name: string, label: string): string =>
  `<label>${label} <input name="${name}" type="password" autocomplete="new-password" required minlength="12" maxlength="200"></label>`

export const tokenField = (token = ''): string => `<input type="hidden" name="token" value="${escapeHtml(token)}">`

export const problemText = (problem: string | undefined): string =>
  problem ? `<p role="alert">${escapeHtml(problem)}</p>` : ''
