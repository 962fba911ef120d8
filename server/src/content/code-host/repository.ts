import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { requestJob, withdrawJob } from '../../kernel/jobs/requests.ts'
import { fail, notFound } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import type { AppCredentials, Github } from '../github/github.ts'
import { GithubError } from '../github/github-errors.ts'
import type * as contract from './contract.ts'
import { codeHostErrors } from './contract.ts'
import { holdApp, readAppCredentials } from './github-app.ts'
import { codeSync } from './sync.ts'

type Needs = Service & { github: Github }
type Connection = Output<typeof contract.getRepository>

export async function listRepositories(
  service: Needs,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.listRepositories>> {
  const credentials = await readAppCredentials(service, organization.id)
  if (!credentials && service.config.github.app) return { is_installed: false, repositories: [], is_complete: true }
  if (!credentials) throw notFound('github_app', organization.id)
  const { isInstalled, isComplete, list } = await ask(() => service.github.listRepositories(credentials))
  const repositories = list.map((each) => ({
    repository: each.full_name,
    is_private: each.private,
    default_branch: each.default_branch,
  }))
  repositories.sort((one, other) => (one.repository < other.repository ? -1 : 1))
  return { is_installed: isInstalled, repositories, is_complete: isComplete }
}

export async function getRepository({ database }: Service, { organization }: OrgCaller): Promise<Connection> {
  return database.asOrg(organization.id, selectConnection)
}

export async function connectRepository(
  service: Needs,
  caller: OrgCaller,
  { repository }: Input<typeof contract.connectRepository>,
): Promise<Connection> {
  const { id } = caller.organization
  const credentials = await requireCredentials(service, id)
  const found = await ask(() => service.github.findRepository(credentials, repository))
  const connection = await service.database.asOrg(id, async (sql) => {
    // The app may have been removed while GitHub was asked.
    if (!(await holdApp(sql, credentials))) throw notFound('github_app', id)
    await sql`
      insert into github_repositories (organization_id, repository_id, full_name, url, default_branch,
        installation_id, connected_by)
      values (current_organization(), ${found.id}, ${found.full_name}, ${found.html_url}, ${found.default_branch},
        ${found.installation_id}, ${caller.actor})
      on conflict (organization_id) do update set
        repository_id = excluded.repository_id, full_name = excluded.full_name, url = excluded.url,
        default_branch = excluded.default_branch, installation_id = excluded.installation_id,
        connected_by = excluded.connected_by, connected_at = now(), failures = 0, blocked_until = null,
        last_sync = null, synced_at = null, synced_commit = null`
    // A sync of the repository that was connected before may be running.
    await withdrawJob(sql, codeSync)
    await requestJob(sql, codeSync)
    const selected = await selectConnection(sql)
    await recordAudit(sql, trailOf(caller), 'github_repository.connected', id, { repository: found.full_name })
    return selected
  })
  return connection
}

export async function disconnectRepository(
  { database }: Service,
  caller: OrgCaller,
): Promise<Output<typeof contract.disconnectRepository>> {
  const { id } = caller.organization
  return database.asOrg(id, async (sql) => {
    const [removed] = await sql<{ repository: string }>`
      delete from github_repositories returning full_name as repository`
    if (!removed) throw notFound('github_repository', id)
    await withdrawJob(sql, codeSync)
    await recordAudit(sql, trailOf(caller), 'github_repository.disconnected', id, { ...removed })
    return { success: true }
  })
}

export async function syncRepository(
  service: Needs,
  caller: OrgCaller,
): Promise<Output<typeof contract.syncRepository>> {
  const { id } = caller.organization
  const connection = await service.database.asOrg(id, async (sql) => {
    if (!(await requestSync(sql))) throw notFound('github_repository', id)
    const selected = await selectConnection(sql)
    if (!selected.repository) throw notFound('github_repository', id)
    const { repository } = selected.repository
    await recordAudit(sql, trailOf(caller), 'github_repository.sync_requested', id, { repository })
    return selected
  })
  return connection
}

/**
 * Requests a sync, unless no repository is connected. One that is already running is followed by another. While GitHub's
 * rate limit lasts, it waits for its end.
 */
export async function requestSync(sql: Sql): Promise<boolean> {
  const [connected] = await sql<{ blocked_until: string | null }>`
    select case when blocked_until > now() then blocked_until end as blocked_until from github_repositories`
  if (!connected) return false
  const { blocked_until: at } = connected
  await (at === null ? requestJob(sql, codeSync) : requestJob(sql, codeSync, { due: { at } }))
  return true
}

async function selectConnection(sql: Sql): Promise<Connection> {
  const [repository] = await sql<NonNullable<Connection['repository']>>`
    select full_name as repository, url, default_branch, connected_by, connected_at,
      case when job.lease is not null and job.due_at > now() then 'syncing'
           when job.due_at <= now() then 'waiting' else 'idle' end as state,
      case when job.lease is null then job.due_at else now() end::timestamptz(3) as next_sync_at,
      synced_at, synced_commit, last_sync
    from github_repositories repository left join jobs job
      on job.organization_id = repository.organization_id and job.kind = ${codeSync} and job.key = ''`
  return { repository: repository ?? null }
}

async function requireCredentials(service: Service, organizationId: string): Promise<AppCredentials> {
  const credentials = await readAppCredentials(service, organizationId)
  if (!credentials) throw notFound('github_app', organizationId)
  return credentials
}

/** Turns GitHub's failures into responses. */
async function ask<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof GithubError)) throw error
    const { kind, message, cause } = error
    const isElsewhere = kind !== 'refused'
    const code = isElsewhere ? 'CODE_HOST_UNAVAILABLE' : 'CODE_HOST_REFUSED'
    throw fail(codeHostErrors[code], code, {}, { message: `${message}.`.replace(/\.\.$/, '.'), cause, isElsewhere })
  }
}
