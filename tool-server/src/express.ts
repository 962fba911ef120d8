import type { IncomingMessage, ServerResponse } from 'node:http'
import { authorize, serve } from './node.ts'
import type { Scope } from './scopes.ts'
import type { ToolServer } from './tool-server.ts'

type Middleware = (request: IncomingMessage, response: ServerResponse, next: () => void) => Promise<void>

/** Serves metadata and tokens. Mount it at the root of the application, because its paths are fixed. */
export const toolServerRoutes =
  (server: ToolServer): Middleware =>
  async (request, response, next) => {
    if (!(await serve(server, request, response))) next()
  }

/** Sets `response.locals.caller`, or responds with 401 or 403. */
export const requireCaller =
  (server: ToolServer, ...scopes: Scope[]): Middleware =>
  async (request, response, next) => {
    const caller = await authorize(server, request, response, scopes)
    if (!caller) return
    Object.assign((response as ServerResponse & { locals: object }).locals, { caller })
    next()
  }
