import type { Context, Hono } from 'hono'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { limitForm, ownPagesOnly, problemText, readForm, tokenField } from '../../kernel/http/forms.ts'
import { escapeHtml } from '../../kernel/http/pages.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import { beginConsent } from './consent.ts'
import {
  createConnectLinks,
  findInvitation,
  findReturn,
  type Invitation,
  linkSeconds,
  useLink,
} from './end-user-consents.ts'
import { describeProblem, showConnectPage, showFacts, showInvalidLink, showTarget } from './page-parts.ts'

/** Ties a form to the call whose link it was issued for. */
const formToken = oneTime<{ call_id: string; return_to: string }>('connect-agent-form', linkSeconds, 10_000)

/** The pages that the agent's users reach with a link from their conversation. */
export function serveAgentLinks(service: Service, app: Hono<NodeEnv>): void {
  const links = createConnectLinks(service)

  async function showInvitation(
    c: Context<NodeEnv>,
    invitation: Invitation,
    form: { call_id: string; return_to: string },
    problem?: string,
  ): Promise<Response> {
    const { connector, organizationId, organizationName, userName, origin } = invitation
    const token = await formToken.issue(service.kv, form)
    const rows = [
      ['Server', connector.server_url],
      ['Added by', `an administrator of ${organizationName}`],
      ['Connects it for', userName],
      ['Where you’ll return to', origin],
      ['Access requested', connector.scopes.join(' ') || 'shown by the server in the next step'],
    ] as const
    return showConnectPage(
      c,
      'Connect',
      `<h1>Connect ${escapeHtml(connector.name)}?</h1>
       <p>The agent of ${escapeHtml(organizationName)} will be able to use its tools as you, in your conversations. A third party runs this server and sees every call.</p>
       <p>Continue only if you are ${escapeHtml(userName)}, and came here from the chat at ${escapeHtml(origin)}.</p>
       ${problemText(problem)}
       ${showFacts(rows)}
       <form method="post" action="${links.pathOf(organizationId, form.call_id)}">${tokenField(token)}
         <button name="decision" value="connect">Connect</button></form>`,
      problem ? 400 : 200,
    )
  }

  app.get('/connect/agent/:link', async (c) => {
    const link = links.open(c.req.param('link'))
    const invitation = link && (await findInvitation(service, link.organizationId, link.callId))
    if (!invitation) return showUsedLink(c)
    const return_to = findReturn(invitation, c.req.query('return_to'))
    return showInvitation(c, invitation, { call_id: link.callId, return_to })
  })

  app.post('/connect/agent/:link', limitForm, ownPagesOnly(service.config.publicUrl), async (c) => {
    const link = links.open(c.req.param('link') ?? '')
    const { token = '' } = await readForm(c)
    const form = await formToken.take(service.kv, token)
    const isOwn = link !== undefined && form?.call_id === link.callId
    const invitation = isOwn ? await findInvitation(service, link.organizationId, link.callId) : undefined
    if (!form || !invitation) return showUsedLink(c)
    try {
      const target = await beginConsent(service, invitation, form.return_to)
      return (await useLink(service, form.call_id)) ? showTarget(c, invitation, target) : showUsedLink(c)
    } catch (error) {
      return showInvitation(c, invitation, form, describeProblem(error))
    }
  })
}

const showUsedLink = (c: Context): Response =>
  showInvalidLink(c, 'Go back to the chat, and ask the agent for a new one.')
