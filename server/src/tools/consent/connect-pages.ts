import { type Context, Hono } from 'hono'
import type { CallingUser } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { BrowserSession, NodeEnv } from '../../kernel/http/browser-session.ts'
import { limitForm, ownPagesOnly, problemText, readForm, tokenField } from '../../kernel/http/forms.ts'
import { escapeHtml } from '../../kernel/http/pages.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import { listOrganizations } from '../../organizations/organizations/organizations.ts'
import { selectStoredConnectors } from '../connectors/connectors.ts'
import { serveAgentLinks } from './agent-links.ts'
import {
  beginConsent,
  type Consenting,
  clientDocumentUrl,
  describeClient,
  finishConsent,
  readToken,
  takeVisit,
  type Visit,
} from './consent.ts'
import { sendBack } from './end-user-consents.ts'
import { describeProblem, showConnectPage, showFacts, showInvalidLink, showTarget } from './page-parts.ts'
import { disconnect } from './revocation.ts'

/** A third party's server, as shown to the user who is signed in. */
interface Seen extends Consenting {
  organizationName: string
  user: CallingUser
}

/** Ties a form to the user and the connector that it was issued for. */
const formToken = oneTime<string>('connect-form', 60 * 60)

/**
 * The pages on which members allow Inlay to act for them at third-party servers. They require a session in this
 * browser, so a link that someone else sent can only connect the member's own account.
 */
export function serveConnect(service: Service, session: BrowserSession): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()
  const { publicUrl } = service.config

  /** Searches the organizations that the user belongs to. */
  async function find(user: CallingUser, id: string): Promise<Seen | undefined> {
    if (!isId(id)) return undefined
    for (const organization of await listOrganizations(service, { user })) {
      const [connector] = await service.database.asOrg(organization.id, (sql) => selectStoredConnectors(sql, id))
      if (connector?.kind !== 'oauth' || connector.status !== 'active') continue
      const organizationName = organization.name
      return { organizationId: organization.id, organizationName, connector, userId: user.id, user }
    }
    return undefined
  }

  async function showConnector(
    c: Context<NodeEnv>,
    seen: Seen,
    { problem, notice = '' }: { problem?: string; notice?: string } = {},
  ): Promise<Response> {
    const { connector, organizationName, user } = seen
    const held = await readToken(service, seen)
    const isConnected = held !== undefined
    const token = await formToken.issue(service.kv, formOf(seen))
    const rows: [string, string][] = [
      ['Server', connector.server_url],
      ['Added by', `an administrator of ${organizationName}`],
      isConnected
        ? ['Access you allowed', held.scopes.join(' ') || 'as shown by the server']
        : ['Access requested', connector.scopes.join(' ') || 'shown by the server in the next step'],
      ['Status', isConnected ? 'Connected' : 'Not connected'],
    ]
    const disconnectButton = isConnected ? ' <button name="decision" value="disconnect">Disconnect</button>' : ''
    return showConnectPage(
      c,
      isConnected ? 'Connected' : 'Connect',
      `<h1>${isConnected ? 'You’re connected to' : 'Connect'} ${escapeHtml(connector.name)}${isConnected ? '' : '?'}</h1>
       ${notice && `<p role="status">${notice}</p>`}
       <p>Agents and MCP clients that act for you ${isConnected ? 'can' : 'will be able to'} use its tools as you. A third party runs this server and sees every call.</p>
       ${problemText(problem)}
       ${showFacts(rows)}
       <form method="post" action="/connect/${connector.id}">${tokenField(token)}
         <button name="decision" value="connect">${isConnected ? 'Reconnect' : 'Connect'}</button>${disconnectButton}</form>
       <p>Signed in as ${escapeHtml(user.email)}. <a href="/oauth/logout">Sign out</a></p>`,
      problem ? 400 : 200,
    )
  }

  app.get('/client-metadata.json', (c) =>
    c.json({ client_id: clientDocumentUrl(publicUrl), ...describeClient(publicUrl) }, 200, {
      'cache-control': 'public, max-age=3600',
    }),
  )

  // Ignores the authorization code: the browser session is all that's needed.
  app.get('/connect/signed-in', (c) => {
    const id = c.req.query('state') ?? ''
    return c.req.query('error') === undefined && isId(id) ? c.redirect(`/connect/${id}`, 303) : showNothing(c)
  })

  app.get('/connect/callback', async (c) => {
    const { state = '', code, iss } = c.req.query()
    const visit = await takeVisit(service, state)
    if (visit?.return_to !== undefined) return returnEndUser(c, { ...visit, return_to: visit.return_to }, code, iss)
    const user = visit && (await session.find(c))
    const seen = user?.id === visit?.user_id && user && (await find(user, visit?.connector_id ?? ''))
    if (!visit || !seen || seen.organizationId !== visit.organization_id) return showNothing(c)
    // The error's text isn't shown, because anyone can put text into the URL.
    if (code === undefined) return showConnector(c, seen, { problem: 'The server denied access.' })
    try {
      await finishConsent(service, seen, visit, { code, iss })
    } catch (error) {
      return showConnector(c, seen, { problem: describeProblem(error) })
    }
    await record(seen, 'connector.connected')
    return c.redirect(`/connect/${seen.connector.id}`, 303)
  })

  app.get('/connect/:id', async (c) => {
    const user = await session.find(c)
    const id = c.req.param('id')
    if (!user) return isId(id) ? c.redirect(session.signInUrl('/connect/signed-in', id), 303) : showNothing(c)
    const seen = await find(user, id)
    return seen ? showConnector(c, seen) : showNothing(c)
  })

  app.post('/connect/:id', limitForm, ownPagesOnly(publicUrl), async (c) => {
    const { token = '', decision } = await readForm(c)
    const user = await session.find(c)
    const seen = user && (await find(user, c.req.param('id') ?? ''))
    if (!seen || (await formToken.take(service.kv, token)) !== formOf(seen)) return showNothing(c)
    if (decision === 'disconnect') {
      await disconnect(service, [seen])
      await record(seen, 'connector.disconnected')
      return showConnector(c, seen, { notice: 'You’re disconnected.' })
    }
    try {
      const back = `<p><a href="/connect/${seen.connector.id}">Back</a></p>`
      return showTarget(c, seen, await beginConsent(service, seen), back)
    } catch (error) {
      return showConnector(c, seen, { problem: describeProblem(error) })
    }
  })

  /** An end user's page completes the consent, because the user isn't signed in here. */
  async function returnEndUser(
    c: Context<NodeEnv>,
    visit: Visit & { return_to: string },
    code: string | undefined,
    iss: string | undefined,
  ): Promise<Response> {
    if (code === undefined) return showConnectPage(c, 'Not connected', notConnected, 400)
    const target = await sendBack(service, visit, { code, iss })
    // Not a redirect: the third party's page may only allow redirects to Inlay after its form (`form-action`).
    c.header('refresh', `0; url=${target}`)
    const name = escapeHtml(new URL(target).origin)
    return showConnectPage(
      c,
      'Almost done',
      `<h1>Almost done</h1><p>You’ll be redirected to ${name}, where the agent completes the connection.</p>
       <p><a class="button" href="${escapeHtml(target)}">Continue to ${name}</a></p>`,
    )
  }

  function record({ organizationId, connector, user }: Seen, action: string): Promise<void> {
    const trail = { organizationId, actor: user.email, actorId: user.id }
    return service.database.asOrg(organizationId, (sql) =>
      recordAudit(sql, trail, action, connector.id, { name: connector.name }),
    )
  }

  serveAgentLinks(service, app)
  return app
}

const notConnected = `<h1>You’re not connected</h1>
  <p>The server denied access. Close this tab, and ask the agent again if you want to connect your account.</p>`

const showNothing = (c: Context): Response => showInvalidLink(c, 'Ask an administrator of your organization for help.')

const formOf = ({ connector, userId }: Consenting) => `${userId} ${connector.id}`
