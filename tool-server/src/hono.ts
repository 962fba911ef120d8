import type { Caller } from './access-tokens.ts'
import { toResponse } from './answers.ts'
import type { Scope } from './scopes.ts'
import type { ToolServer } from './tool-server.ts'

interface Context {
  req: { raw: Request }
  set(name: 'caller', caller: Caller): void
}
type Middleware = (context: Context, next: () => Promise<void>) => Promise<Response | undefined>

/** Metadata and tokens. To be used on the application itself, not under a path: the addresses are fixed. */
export const toolServerRoutes =
  (server: ToolServer): Middleware =>
  async (context, next) => {
    const response = await server.fetch(context.req.raw)
    if (!response) await next()
    return response
  }

/** Leaves who calls in the context's `caller`. */
export const requireCaller =
  (server: ToolServer, ...scopes: Scope[]): Middleware =>
  async (context, next) => {
    const verified = await server.verify(context.req.raw, scopes)
    if (!verified.ok) return toResponse(verified.answer)
    context.set('caller', verified.caller)
    await next()
    return undefined
  }
