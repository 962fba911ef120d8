import { type Context, Hono } from 'hono'
import type { PlatformApp } from '../../kernel/config/config.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { BrowserSession, NodeEnv } from '../../kernel/http/browser-session.ts'
import { page, pageHeaders } from '../../kernel/http/pages.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import type { Github } from '../github/github.ts'
import { GithubError } from '../github/github-errors.ts'
import { type InstallationStart, installationState, saveInstallation } from './installations.ts'
import { adviseAfter, findStarter, showProblem } from './pages.ts'

/** An installation whose user still has to prove that they have access to it. */
const authorizationState = oneTime<InstallationStart & { installation_id: number }>('github-authorization', 600)

const heading = 'The GitHub app wasn’t connected'
const startAgain = 'Start again from the Code host page.'

/**
 * The URLs that GitHub sends browsers to after the operator's app was installed. Three things must agree before an
 * installation becomes an organization's: the single-use state says which organization started it, the browser is
 * signed in to Inlay as the administrator who did, and GitHub says that its user has access to the installation.
 */
export function serveInstallations(service: Service & { github: Github }, session: BrowserSession): Hono<NodeEnv> {
  const { config, kv } = service
  const app = new Hono<NodeEnv>()
  const platform = config.github.app
  if (!platform) return app

  app.get('/api/org-github-apps/installed', async (c) => {
    c.set('operation' as never, 'githubAppInstalled' as never)
    const { state = '', installation_id = '', setup_action } = c.req.query()
    if (setup_action === 'request') {
      const text = 'An owner of your GitHub organization has to approve the installation.'
      return showProblem(c, `${text} Then start again from the Code host page.`, { heading })
    }
    if (setup_action === 'update' && !state) return showUpdated(c)
    const starting = await installationState.read(kv, state)
    const starter = await findStarter(service, session, c, starting)
    // The link stays usable for the admin if someone else opens it.
    const started = starter && (await installationState.take(kv, state))
    if (!started) return showProblem(c, invalidLink, { heading })
    if (!/^[1-9]\d{0,15}$/.test(installation_id)) {
      return showProblem(c, `GitHub didn’t say where the app was installed. ${startAgain}`, { heading })
    }
    const next = await authorizationState.issue(kv, { ...started, installation_id: Number(installation_id) })
    return c.redirect(authorizationUrl(config, platform, next), 303)
  })

  app.get('/api/org-github-apps/authorized', async (c) => {
    c.set('operation' as never, 'githubAppAuthorized' as never)
    const { state = '', code = '' } = c.req.query()
    const starting = await authorizationState.read(kv, state)
    const admin = await findStarter(service, session, c, starting)
    const started = admin && (await authorizationState.take(kv, state))
    if (!started) return showProblem(c, invalidLink, { heading })
    const back = `${config.publicUrl}/o/${admin.slug}/code-host`
    const refuse = (problem: string) => showProblem(c, problem, { heading, back })
    if (!/^[\w-]{1,200}$/.test(code)) return refuse(`GitHub didn’t confirm who you are there. ${startAgain}`)
    const { organization_id: organizationId, installation_id } = started
    try {
      const found = await service.github.findUserInstallation(platform, code, installation_id)
      if (!found) return refuse(`Your GitHub account has no access to this installation. ${startAgain}`)
      const trail = { organizationId, actor: admin.email, actorId: admin.id }
      if (!(await saveInstallation(service, trail, platform, { installation_id, ...found })))
        return refuse(
          `${found.account} is already connected to another organization in Inlay. Disconnect it there, or uninstall the app on GitHub, and start again.`,
        )
    } catch (error) {
      if (!(error instanceof GithubError)) throw error
      return refuse(adviseAfter(error, startAgain))
    }
    return c.redirect(back, 303)
  })
  return app
}

const invalidLink = `This link isn’t valid. It can be used once, within an hour, in the browser in which the admin who started the installation is signed in to Inlay. ${startAgain}`

function authorizationUrl({ github, publicUrl }: Service['config'], { clientId }: PlatformApp, state: string): string {
  const query = new URLSearchParams({
    client_id: clientId,
    redirect_uri: `${publicUrl}/api/org-github-apps/authorized`,
    state,
    allow_signup: 'false',
  })
  return `${github.url}/login/oauth/authorize?${query}`
}

/** After a change of access on GitHub. The Code host page lists the repositories again. */
const showUpdated = (c: Context): Response =>
  c.body(
    page(
      'GitHub app',
      `<h1>Access changed</h1><p>Continue on the Code host page of your organization.</p>
       <p><a class="button" href="/">Back to Inlay</a></p>`,
    ),
    200,
    pageHeaders,
  )
