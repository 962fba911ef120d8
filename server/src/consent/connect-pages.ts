import { type Context, Hono } from 'hono'
import { selectStoredConnectors } from '../connectors/connectors.ts'
import { StepFailed } from '../connectors/steps.ts'
import type { Caller } from '../foundation/caller.ts'
import type { Service } from '../foundation/service.ts'
import type { BrowserSession, NodeEnv } from '../http/browser-session.ts'
import { limitForm, ownPagesOnly, problemText, readForm, tokenField } from '../http/forms.ts'
import { escapeHtml, page, pageHeaders } from '../http/pages.ts'
import { isId } from '../lib/ids.ts'
import { listOrganizations } from '../organizations/organizations.ts'
import { recordAudit } from '../stores/audit/audit.ts'
import { oneTime } from '../stores/one-time.ts'
import {
  beginConsent,
  type Consenting,
  clientDocumentUrl,
  describeClient,
  finishConsent,
  readToken,
  takeVisit,
} from './consent.ts'
import { disconnect } from './revocation.ts'

/** A third party's server, as shown to the user who is signed in. */
interface Seen extends Consenting {
  organizationName: string
  user: Caller['user']
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
  async function find(user: Caller['user'], id: string): Promise<Seen | undefined> {
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
    const rows = [
      ['Server', connector.server_url],
      ['Added by', `an administrator of ${organizationName}`],
      isConnected
        ? ['Access you allowed', held.scopes.join(' ') || 'as shown by the server']
        : ['Access requested', connector.scopes.join(' ') || 'shown by the server in the next step'],
      ['Status', isConnected ? 'Connected' : 'Not connected'],
    ]
    const disconnectButton = isConnected ? ' <button name="decision" value="disconnect">Disconnect</button>' : ''
    return show(
      c,
      isConnected ? 'Connected' : 'Connect',
      `<h1>${isConnected ? 'You’re connected to' : 'Connect'} ${escapeHtml(connector.name)}${isConnected ? '' : '?'}</h1>
       ${notice && `<p role="status">${notice}</p>`}
       <p>Agents and MCP clients that act for you ${isConnected ? 'can' : 'will be able to'} use its tools as you. A third party runs this server and sees every call.</p>
       ${problemText(problem)}
       <dl>${rows.map(([term, text]) => `<dt>${term}</dt><dd>${escapeHtml(text ?? '')}</dd>`).join('')}</dl>
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
      return showTarget(c, seen, await beginConsent(service, seen))
    } catch (error) {
      return showConnector(c, seen, { problem: describeProblem(error) })
    }
  })

  const record = ({ organizationId, connector, user }: Seen, action: string) =>
    service.database.asOrg(organizationId, (sql) =>
      recordAudit(sql, { organizationId, actor: user.email }, action, connector.id, { name: connector.name }),
    )

  return app
}

/** Shows users where they're redirected to before they leave. */
const showTarget = (c: Context, { connector }: Seen, target: URL): Response =>
  show(
    c,
    'Connect',
    `<h1>Continue to ${escapeHtml(target.host)}?</h1>
     <p>You’ll sign in to ${escapeHtml(connector.name)} and allow access there. Continue only if you recognize this address.</p>
     <p><a class="button" href="${escapeHtml(target.href)}">Continue to ${escapeHtml(target.host)}</a></p>
     <p><a href="/connect/${connector.id}">Back</a></p>`,
  )

const showNothing = (c: Context): Response =>
  show(
    c,
    'Link not valid',
    '<h1>This link isn’t valid</h1><p>It has expired, was already used, or is for another user. Ask an administrator of your organization for help.</p>',
    404,
  )

const show = (c: Context, title: string, html: string, status: 200 | 400 | 404 = 200): Response =>
  // Without a referrer, browsers don't send the origin that `ownPagesOnly` checks.
  c.body(page(title, html), status, { ...pageHeaders, 'referrer-policy': 'same-origin' })

const formOf = ({ connector, userId }: Consenting) => `${userId} ${connector.id}`

function describeProblem(error: unknown): string {
  if (error instanceof StepFailed) return error.message
  throw error
}
