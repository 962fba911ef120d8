import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import type { Caller } from '../foundation/caller.ts'

/** Gives pages access to Node's requests and responses. */
export type NodeEnv = { Bindings: HttpBindings }

/** The pages that users return to after they sign in. */
export const ownPages = ['/connect/signed-in', '/invitations'] as const
type OwnPage = (typeof ownPages)[number]

/** The user who is signed in to Inlay in a browser. */
export interface BrowserSession {
  find(c: Context<NodeEnv>): Promise<Caller['user'] | undefined>
  /** Where the user signs in before they are redirected to one of our pages. */
  signInUrl(page: OwnPage, state?: string): string
}
