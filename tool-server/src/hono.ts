import type { Caller } from './access-tokens.ts'
import { toResponse } from './http.ts'
import type { Scope } from './scopes.ts'
import type { ToolServer } from './tool-server.ts'

interface Context {
  req: { raw: Request }
  set(name: 'caller', caller: Caller): void
}
type Middleware = (context: Context, next: () => Promise<void>) => Promise<Response | undefined>

/** Serves metadata and tokens. Mount it at the root of the application, because its paths are fixed. */
export const toolServerRoutes =
  (server: ToolServer): Middleware =>
  async (context, next) => {
    const response = await server.fetch(context.req.raw)
    if (!response) await next()
    return response
  }

/** Sets `caller` in the context, or responds with 401 or 403. */
export const requireCaller =
  (server: ToolServer, ...scopes: Scope[]): Middleware =>
  async (context, next) => {
    const verified = await server.verify(context.req.raw, scopes)
    if (!verified.ok) return toResponse(verified.answer)
    context.set('caller', verified.caller)
    await next()
    return undefined
  }
