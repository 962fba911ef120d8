import type { Context } from 'hono'

/**
 * A preflight request doesn't include the key, so the origin can't be checked yet. The response only lets the browser
 * send the request; the page can read its response only if the key allows the origin.
 */
export const answerPreflight = (c: Context): Response =>
  c.body(null, 204, {
    'access-control-allow-origin': c.req.header('origin') ?? 'null',
    'access-control-allow-methods': 'POST',
    'access-control-allow-headers': 'content-type',
    'access-control-max-age': '600',
    vary: 'Origin',
  })
