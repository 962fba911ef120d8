import { type Context, Hono } from 'hono'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { page, pageHeaders } from '../../kernel/http/pages.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { createSignInFlow, type SignInProvider } from '../sign-in/external.ts'
import { limitVisits } from '../sign-in/visit-limits.ts'
import { admitFromOrganization } from './admission.ts'
import { findWayIn, issuerOfUsers } from './ways-in.ts'

/**
 * Each organization has a redirect URI of its own, so that a hostile provider can't have the code of another one sent
 * to itself (RFC 9700, section 4.4).
 */
export const redirectUriOf = ({ config }: Pick<Service, 'config'>, organizationId: string): string =>
  `${config.publicUrl}/sign-in/organization/${organizationId}/callback`

/** The path to send a browser to. It returns to `returnTo`, a path, with `handoff` in the query. */
export function organizationSignInPath(organizationId: string, returnTo: string, { asks = false } = {}): string {
  const query = new URLSearchParams({ return_to: returnTo, ...(asks && { account: 'other' }) })
  return `/sign-in/organization/${organizationId}?${query}`
}

/** `/sign-in/organization`: sign-in at the providers of organizations. */
export function serveOrganizationSignIn(service: Service): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()
  const flow = createSignInFlow(service)

  const withProvider =
    (step: 'start' | 'finish') =>
    async (c: Context<NodeEnv>): Promise<Response> => {
      const id = c.req.param('id') ?? ''
      const way = isId(id) ? await findWayIn(service, id) : undefined
      if (!way) return showClosed(c)
      const provider: SignInProvider = {
        id: issuerOfUsers(id, way.client.issuer),
        client: way.client,
        redirectUri: redirectUriOf(service, id),
        admit: (claims, address) => admitFromOrganization(service, way, claims, address),
      }
      return flow[step](c, provider)
    }

  app.get('/organization/:id', limitVisits(service), withProvider('start'))
  app.get('/organization/:id/callback', limitVisits(service), withProvider('finish'))
  return app
}

const showClosed = (c: Context) =>
  c.body(
    page(
      'Sign in',
      '<h1>You can’t sign in this way</h1><p>This organization has no sign-in provider, or no longer uses it. Sign in another way, or ask an administrator of the organization.</p><p><a class="button" href="/">Continue to Inlay</a></p>',
    ),
    404,
    pageHeaders,
  )
