import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import type { Caller } from '../foundation/caller.ts'

/** Gives pages access to Node's requests and responses. */
export type NodeEnv = { Bindings: HttpBindings }

/** The pages that users return to after they sign in. */
export const ownPages = ['/connect/signed-in', '/invitations', '/account'] as const
type OwnPage = (typeof ownPages)[number]

/** The user who is signed in to Inlay in a browser. */
export interface BrowserSession {
  find(c: Context<NodeEnv>): Promise<Caller['user'] | undefined>
  /** Whether the user signed in within the last 15 minutes. Otherwise, another person may be using their browser. */
  isRecent(c: Context<NodeEnv>): Promise<boolean>
  /** Where the user signs in before they are redirected to one of our pages. */
  signInUrl(page: OwnPage, state?: string): string
  /** The same for a user who is signed in already. */
  signInAgainUrl(page: OwnPage): string
}
