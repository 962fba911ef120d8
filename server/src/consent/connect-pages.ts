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

/** A third party's server, seen by somebody who is signed in in this browser. */
interface Seen extends Consenting {
  organizationName: string
  person: Caller['user']
}

/** Ties a form to the person and the connector that it was made for. */
const formToken = oneTime<string>('connect-form', 60 * 60)

/**
 * The pages on which members allow Inlay to act for them at servers of third parties. Whoever sits at the browser has to be
 * signed in in it: a link that somebody else sent can connect no account but one's own.
 */
export function serveConnect(service: Service, session: BrowserSession): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()
  const { publicUrl } = service.config

  /** Of an organization that the person belongs to. */
  async function find(person: Caller['user'], id: string): Promise<Seen | undefined> {
    if (!isId(id)) return undefined
    for (const organization of await listOrganizations(service, { user: person })) {
      const [connector] = await service.database.asOrg(organization.id, (sql) => selectStoredConnectors(sql, id))
      if (connector?.kind !== 'oauth' || connector.status !== 'active') continue
      const organizationName = organization.name
      return { organizationId: organization.id, organizationName, connector, userId: person.id, person }
    }
    return undefined
  }

  async function showConnector(
    c: Context<NodeEnv>,
    seen: Seen,
    { problem, notice = '' }: { problem?: string; notice?: string } = {},
  ): Promise<Response> {
    const { connector, organizationName, person } = seen
    const held = await readToken(service, seen)
    const isConnected = held !== undefined
    const token = await formToken.issue(service.kv, formOf(seen))
    const rows = [
      ['Server', connector.server_url],
      ['Added by', `an administrator of ${organizationName}`],
      isConnected
        ? ['You allowed', held.scopes.join(' ') || 'what it showed you']
        : ['Asks for', connector.scopes.join(' ') || 'what it shows you next'],
      ['State', isConnected ? 'connected' : 'not connected'],
    ]
    const disconnectButton = isConnected ? ' <button name="decision" value="disconnect">Disconnect</button>' : ''
    return show(
      c,
      isConnected ? 'Connected' : 'Connect',
      `<h1>${isConnected ? 'You are connected to' : 'Connect'} ${escapeHtml(connector.name)}${isConnected ? '' : '?'}</h1>
       ${notice && `<p role="status">${notice}</p>`}
       <p>Agents and MCP clients that act for you ${isConnected ? '' : 'will '}use its tools as you. The server belongs to somebody else, and sees what they do.</p>
       ${problemText(problem)}
       <dl>${rows.map(([term, text]) => `<dt>${term}</dt><dd>${escapeHtml(text ?? '')}</dd>`).join('')}</dl>
       <form method="post" action="/connect/${connector.id}">${tokenField(token)}
         <button name="decision" value="connect">${isConnected ? 'Connect again' : 'Connect'}</button>${disconnectButton}</form>
       <p>Signed in as ${escapeHtml(person.email)}. <a href="/oauth/logout">Sign out</a></p>`,
      problem ? 400 : 200,
    )
  }

  app.get('/client-metadata.json', (c) =>
    c.json({ client_id: clientDocumentUrl(publicUrl), ...describeClient(publicUrl) }, 200, {
      'cache-control': 'public, max-age=3600',
    }),
  )

  // Nobody needs what the sign-in gives beside the session that this browser has now.
  app.get('/connect/signed-in', (c) => {
    const id = c.req.query('state') ?? ''
    return c.req.query('error') === undefined && isId(id) ? c.redirect(`/connect/${id}`, 303) : showNothing(c)
  })

  app.get('/connect/callback', async (c) => {
    const { state = '', code, iss } = c.req.query()
    const visit = await takeVisit(service, state)
    const person = visit && (await session.find(c))
    const seen = person?.id === visit?.user_id && person && (await find(person, visit?.connector_id ?? ''))
    if (!visit || !seen || seen.organizationId !== visit.organization_id) return showNothing(c)
    // What an error says may be anybody's words: it is not shown.
    if (code === undefined) return showConnector(c, seen, { problem: 'The server did not allow it.' })
    try {
      await finishConsent(service, seen, visit, { code, iss })
    } catch (error) {
      return showConnector(c, seen, { problem: describeProblem(error) })
    }
    await record(seen, 'connector.connected')
    return c.redirect(`/connect/${seen.connector.id}`, 303)
  })

  app.get('/connect/:id', async (c) => {
    const person = await session.find(c)
    const id = c.req.param('id')
    if (!person) return isId(id) ? c.redirect(session.signInUrl('/connect/signed-in', id), 303) : showNothing(c)
    const seen = await find(person, id)
    return seen ? showConnector(c, seen) : showNothing(c)
  })

  app.post('/connect/:id', limitForm, ownPagesOnly(publicUrl), async (c) => {
    const { token = '', decision } = await readForm(c)
    const person = await session.find(c)
    const seen = person && (await find(person, c.req.param('id') ?? ''))
    if (!seen || (await formToken.take(service.kv, token)) !== formOf(seen)) return showNothing(c)
    if (decision === 'disconnect') {
      await disconnect(service, [seen])
      await record(seen, 'connector.disconnected')
      return showConnector(c, seen, { notice: 'You are disconnected.' })
    }
    try {
      return showTarget(c, seen, await beginConsent(service, seen))
    } catch (error) {
      return showConnector(c, seen, { problem: describeProblem(error) })
    }
  })

  const record = ({ organizationId, connector, person }: Seen, action: string) =>
    service.database.asOrg(organizationId, (sql) =>
      recordAudit(sql, { organizationId, actor: person.email }, action, connector.id, { name: connector.name }),
    )

  return app
}

/** The person sees where they are sent before they go. */
const showTarget = (c: Context, { connector }: Seen, target: URL): Response =>
  show(
    c,
    'Connect',
    `<h1>Go on at ${escapeHtml(target.host)}</h1>
     <p>This is where ${escapeHtml(connector.name)} asks who you are and whether you allow this. Go on only if you know it.</p>
     <p><a class="button" href="${escapeHtml(target.href)}">Continue at ${escapeHtml(target.host)}</a></p>
     <p><a href="/connect/${connector.id}">Back</a></p>`,
  )

const showNothing = (c: Context): Response =>
  show(
    c,
    'Nothing here',
    '<h1>There is nothing to connect here</h1><p>The link is old, was used, or is meant for somebody else. Ask an administrator of your organization.</p>',
    404,
  )

const show = (c: Context, title: string, html: string, status: 200 | 400 | 404 = 200): Response =>
  // Without a referrer browsers would not say either where a form comes from.
  c.body(page(title, html), status, { ...pageHeaders, 'referrer-policy': 'same-origin' })

const formOf = ({ connector, userId }: Consenting) => `${userId} ${connector.id}`

function describeProblem(error: unknown): string {
  if (error instanceof StepFailed) return error.message
  throw error
}
