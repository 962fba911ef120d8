import type { Context } from 'hono'
import { preflightHeaders } from '../../kernel/http/json-endpoint.ts'

/** For requests whose key or ticket is in the body. */
export const answerPreflight = (c: Context): Response =>
  c.body(null, 204, preflightHeaders(c.req.header('origin'), 'content-type'))
