import { verify } from '@octokit/webhooks-methods'
import { type Context, Hono } from 'hono'
import { z } from 'zod'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { isJson, readText } from '../../kernel/http/connections.ts'
import { failure, invalid } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { InvalidJson, parseJson } from '../../kernel/lib/json.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { readWebhookSecret } from './github-app.ts'
import { deleteInstallation, findInstallationOwner } from './installations.ts'
import { requestSync } from './repository.ts'

/**
 * A push with about a thousand commits. GitHub sends up to 25 MB, but bodies are read before their signature is checked,
 * so anyone could make the server hold them. If a push is refused, the hourly sync catches up.
 */
const webhookLimit = 1024 * 1024

/** The URLs that GitHub calls: one for each organization's own app, and one for the operator's. */
export function serveGithubWebhooks(service: Service): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()
  const platform = service.config.github.app

  async function process(organizationId: string, { delivery, event }: Delivery, ends = false): Promise<string> {
    return service.database.asOrg(organizationId, (sql) =>
      receive(sql, organizationId, delivery, ends ? 'uninstalled' : event),
    )
  }

  app.post('/api/org-github-apps/webhook/:id', async (c) => {
    c.set('operation' as never, 'githubWebhook' as never)
    const organizationId = c.req.param('id')
    const secret = isId(organizationId) ? await readWebhookSecret(service, organizationId) : undefined
    const delivery = await readDelivery(c, secret)
    return c.json({ status: await process(organizationId, delivery) }, 202)
  })

  app.post('/api/org-github-apps/webhook', async (c) => {
    c.set('operation' as never, 'githubPlatformWebhook' as never)
    const delivery = await readDelivery(c, platform?.webhookSecret)
    const about = Installed.safeParse(delivery.payload)
    const id = about.success ? about.data.installation.id : undefined
    const owner = platform && id !== undefined ? await findInstallationOwner(service, platform, id) : undefined
    // Installed on GitHub, but not connected to an organization here.
    if (!owner) return c.json({ status: 'ignored' }, 202)
    const ends = delivery.name === 'installation' && about.data?.action === 'deleted'
    return c.json({ status: await process(owner, delivery, ends) }, 202)
  })
  return app
}

interface Delivery {
  /** GitHub's ID of the delivery. */
  delivery: string
  name: string
  payload: unknown
  event: RelevantEvent
}

/** Reads a delivery that is signed with the secret. */
async function readDelivery(c: Context<NodeEnv>, secret: string | undefined): Promise<Delivery> {
  const body = await readText(c.env.incoming, webhookLimit)
  const signature = c.req.header('x-hub-signature-256')
  if (!secret || !signature || !body || !(await verify(secret, body, signature))) throw badSignature()
  const delivery = c.req.header('x-github-delivery') ?? ''
  if (!/^[\w-]{1,100}$/.test(delivery)) throw invalid('X-GitHub-Delivery', 'Must be the ID of the delivery')
  const name = c.req.header('x-github-event') ?? ''
  const payload = readPayload(body, c.req.header('content-type'))
  return { delivery, name, payload, event: readEvent(name, payload) }
}

const Installed = z.object({ action: z.string().optional(), installation: z.object({ id: z.int() }) })

/** An organization's GitHub app can deliver JSON or a form. The signature covers the body as it was sent. */
function readPayload(body: string, contentType: string | undefined): unknown {
  const text = isJson(contentType) ? body : (new URLSearchParams(body).get('payload') ?? '')
  try {
    return parseJson(text)
  } catch (error) {
    throw error instanceof InvalidJson ? invalid('', error.message) : error
  }
}

const Push = z.object({
  ref: z.string(),
  repository: z.object({ id: z.int(), default_branch: z.string() }),
  installation: z.object({ id: z.int() }),
})

/** Events after which the skills may differ: a push to the default branch, or the app gained or lost access. */
type RelevantEvent = { repositoryId: number; installationId: number } | 'access' | 'uninstalled' | undefined

function readEvent(event: string, payload: unknown): RelevantEvent {
  if (event === 'installation' || event === 'installation_repositories') return 'access'
  if (event !== 'push') return undefined
  const push = Push.safeParse(payload)
  if (!push.success) throw invalid('', 'The payload of a push must have a ref, a repository and an installation')
  const { ref, repository, installation } = push.data
  if (ref !== `refs/heads/${repository.default_branch}`) return undefined
  return { repositoryId: repository.id, installationId: installation.id }
}

const keptDays = 7

/**
 * A webhook only says that something changed; a sync then reads the current state. So it doesn't matter in which order
 * webhooks arrive.
 */
async function receive(
  sql: Sql,
  organizationId: string,
  delivery: string,
  event: RelevantEvent,
): Promise<'accepted' | 'ignored' | 'duplicate'> {
  const [isNew] = await sql`
    insert into github_deliveries (organization_id, delivery_id) values (current_organization(), ${delivery})
    on conflict do nothing returning true`
  if (!isNew) return 'duplicate'
  await sql`delete from github_deliveries where received_at < now() - make_interval(days => ${keptDays})`
  if (event === undefined) return 'ignored'
  if (event === 'uninstalled') {
    await deleteInstallation(sql, { organizationId, actor: 'github' })
    return 'accepted'
  }
  const [connected] = await sql<{ repository_id: number; installation_id: number }>`
    select repository_id, installation_id from github_repositories`
  if (!connected) return 'ignored'
  // A new installation begins with an event about access, whose sync finds it.
  const { repository_id, installation_id } = connected
  if (event !== 'access' && (event.repositoryId !== repository_id || event.installationId !== installation_id))
    return 'ignored'
  await requestSync(sql)
  return 'accepted'
}

/** The same for an unknown organization and for one without an app. */
const badSignature = () =>
  failure(
    401,
    'UNAUTHORIZED',
    'The webhook’s signature is missing or wrong. Check the webhook secret of the GitHub app.',
  )
