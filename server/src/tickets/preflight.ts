import type { Context } from 'hono'

/**
 * A preflight does not say which key will be sent, so it cannot say whether the origin is allowed. It only lets the
 * browser ask; the answer itself is readable for exactly the origins that the key allows.
 */
export const answerPreflight = (c: Context): Response =>
  c.body(null, 204, {
    'access-control-allow-origin': c.req.header('origin') ?? 'null',
    'access-control-allow-methods': 'POST',
    'access-control-allow-headers': 'content-type',
    'access-control-max-age': '600',
    vary: 'Origin',
  })
