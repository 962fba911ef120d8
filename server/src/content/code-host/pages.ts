import { type Context, Hono } from 'hono'
import type { Service } from '../../kernel/foundation/service.ts'
import type { BrowserSession, NodeEnv } from '../../kernel/http/browser-session.ts'
import { escapeHtml, page, pageHeaders } from '../../kernel/http/pages.ts'
import { isUnavailable } from '../../kernel/lib/errors.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import type { Kv } from '../../kernel/stores/kv.ts'
import type { Conversion, Github } from '../github/github.ts'
import { GithubError } from '../github/github-errors.ts'
import { type Registration, registrationState, saveApp } from './github-app.ts'

type Needs = Service & { github: Github }

/**
 * The URL that GitHub sends browsers to after it created an organization's own app. The state isn't enough: another
 * organization's admin could let an owner of this GitHub organization confirm the app, and would get its credentials.
 * So the browser must be signed in to Inlay as the admin who started the registration.
 */
export function serveGithubApp(service: Needs, session: BrowserSession): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()

  app.get('/api/org-github-apps/callback', async (c) => {
    c.set('operation' as never, 'githubAppCallback' as never)
    const { state = '', code = '' } = c.req.query()
    const unfinished = await unfinishedRegistration.read(service.kv, state)
    const registration = unfinished?.registration ?? (await registrationState.read(service.kv, state))
    const admin = await findStarter(service, session, c, registration)
    // The state is taken after everything else that can fail.
    if (!registration || !admin || (!unfinished && !(await registrationState.take(service.kv, state)))) {
      return showProblem(c, invalidLink)
    }
    const back = `${service.config.publicUrl}/o/${admin.slug}/code-host`
    if (!/^[\w-]{1,200}$/.test(code)) return showProblem(c, 'GitHub didn’t say which app it created.', { back })
    try {
      const created = unfinished?.created ?? (await convertOnce(service, state, registration, code))
      const isSaved = await saveApp(service, registration, admin, created)
      await unfinishedRegistration.remove(service.kv, state)
      if (!isSaved)
        return showProblem(c, 'Your organization already has a GitHub app. Delete the new one on GitHub.', { back })
    } catch (error) {
      if (isUnavailable(error)) return showUnfinished(c)
      if (!(error instanceof GithubError)) throw error
      await unfinishedRegistration.remove(service.kv, state)
      const advice = 'If GitHub created an app, delete it there. Then start again.'
      return showProblem(c, adviseAfter(error, advice), { back })
    }
    return c.redirect(back, 303)
  })
  return app
}

const invalidLink =
  'This link isn’t valid. It can be used once, within an hour, in the browser in which you’re signed in to Inlay as the admin who started the registration. If you are, sign in here, and reload this page. If you didn’t start a registration in Inlay, delete the new app on GitHub.'

const conversionSeconds = 3600
const unfinishedKey = (state: string) => `github-conversion:${fingerprint(state)}`

/**
 * GitHub returns an app's credentials once. They're kept, encrypted, until they're in the database, so that reloading the
 * page continues if the database is unavailable.
 */
const unfinishedRegistration = {
  read: (kv: Kv, state: string) => kv.get<UnfinishedRegistration>(unfinishedKey(state)),
  save: (kv: Kv, state: string, value: UnfinishedRegistration) =>
    kv.set(unfinishedKey(state), value, conversionSeconds),
  remove: (kv: Kv, state: string) => kv.take(unfinishedKey(state)),
}

interface UnfinishedRegistration {
  registration: Registration
  created: Conversion
}

async function convertOnce(
  { github, kv, log }: Needs,
  state: string,
  registration: Registration,
  code: string,
): Promise<Conversion> {
  const created = await github.convertManifest(code)
  await unfinishedRegistration.save(kv, state, { registration, created }).catch((error) => {
    // The database may still take them.
    log.warn({ err: error }, 'Could not keep the credentials of a new GitHub app')
  })
  return created
}

/** Who started this, if it's the user of this browser, and they're still an admin of the same organization. */
export async function findStarter(
  { database }: Service,
  session: BrowserSession,
  c: Context<NodeEnv>,
  started: { organization_id: string; user_id: string } | undefined,
) {
  const user = started && (await session.find(c))
  if (!started || user?.id !== started.user_id) return undefined
  const [admin] = await database.asOrg(
    started.organization_id,
    (sql) => sql<{ id: string; email: string; slug: string }>`
      select u.id, u.email, o.slug from members m
      join users u on u.id = m.user_id
      join organizations o on o.id = m.organization_id
      where m.user_id = ${started.user_id} and m.role = 'admin' and m.deactivated_at is null`,
  )
  return admin
}

export const adviseAfter = ({ message }: GithubError, advice: string): string =>
  `${message}. ${advice}`.replace('.. ', '. ')

export const showProblem = (
  c: Context,
  problem: string,
  { heading = 'The GitHub app wasn’t registered', back = '/' } = {},
): Response =>
  c.body(
    page(
      'GitHub app',
      `<h1>${escapeHtml(heading)}</h1><p role="alert">${escapeHtml(problem)}</p>
       <p><a class="button" href="${escapeHtml(back)}">Back to Inlay</a></p>`,
    ),
    400,
    pageHeaders,
  )

/** An empty address is the page's own. */
const showUnfinished = (c: Context): Response =>
  c.body(
    page(
      'GitHub app',
      `<h1>The GitHub app isn’t stored yet</h1>
       <p role="alert">GitHub created the app, but Inlay’s database is unavailable. Nothing is lost: try again within an hour.</p>
       <p><a class="button" href="">Try again</a></p>`,
    ),
    503,
    pageHeaders,
  )
