import { type Context, Hono } from 'hono'
import type { Service } from '../foundation/service.ts'
import type { Conversion, Github } from '../github/github.ts'
import { GithubError } from '../github/github-errors.ts'
import type { NodeEnv } from '../http/browser-session.ts'
import { escapeHtml, page, pageHeaders } from '../http/pages.ts'
import { isUnavailable } from '../lib/errors.ts'
import { fingerprint } from '../lib/secrets.ts'
import type { Kv } from '../stores/kv.ts'
import { type Registration, registrationState, saveApp } from './github-app.ts'

type Needs = Service & { github: Github }

/** The URL that GitHub sends browsers to after it created an organization's own app. */
export function serveGithubApp(service: Needs): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()

  // Needs no session: the state can be used once, and says for which organization an administrator started this.
  app.get('/api/org-github-apps/callback', async (c) => {
    c.set('operation' as never, 'githubAppCallback' as never)
    const { state = '', code = '' } = c.req.query()
    const unfinished = await unfinishedRegistration.read(service.kv, state)
    const registration = unfinished?.registration ?? (await registrationState.read(service.kv, state))
    const admin = registration && (await findAdmin(service, registration.organization_id, registration.user_id))
    // The state is taken after everything else that can fail.
    if (!registration || !admin || (!unfinished && !(await registrationState.take(service.kv, state)))) {
      return showProblem(c, 'This link isn’t valid. It can be used once, within an hour, while you’re an admin.')
    }
    const back = `${service.config.publicUrl}/o/${admin.slug}/code-host`
    if (!/^[\w-]{1,200}$/.test(code)) return showProblem(c, 'GitHub didn’t say which app it created.', { back })
    try {
      const created = unfinished?.created ?? (await convertOnce(service, state, registration, code))
      const isSaved = await saveApp(service, registration, admin.email, created)
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

export async function findAdmin({ database }: Service, organizationId: string, userId: string) {
  const [admin] = await database.asOrg(
    organizationId,
    (sql) => sql<{ email: string; slug: string }>`
      select u.email, o.slug from members m
      join users u on u.id = m.user_id
      join organizations o on o.id = m.organization_id
      where m.user_id = ${userId} and m.role = 'admin' and m.deactivated_at is null`,
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
