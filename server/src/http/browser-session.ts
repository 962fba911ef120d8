import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import type { Caller } from '../foundation/caller.ts'

/** Pages are served on Node's own requests and responses. */
export type NodeEnv = { Bindings: HttpBindings }

/** Pages that send people to sign in, and where they come back to. */
export const ownPages = ['/connect/signed-in', '/invitations'] as const
type OwnPage = (typeof ownPages)[number]

/** Who is signed in in the browser that asks for one of our own pages. */
export interface BrowserSession {
  find(c: Context<NodeEnv>): Promise<Caller['user'] | undefined>
  /** Signs the user in, in this browser, and sends them to one of our pages. */
  signInUrl(page: OwnPage, state?: string): string
}
