import type { PlatformApp } from '../../kernel/config/config.ts'
import { type MemberCaller, type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { duplicate, notFound } from '../../kernel/lib/errors.ts'
import { recordAudit, type Trail } from '../../kernel/stores/audit/audit.ts'
import { isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import type * as contract from './contract.ts'

/** Who started to install the operator's app. */
export interface InstallationStart {
  organization_id: string
  user_id: string
}

/** GitHub returns it with the installation's ID. */
export const installationState = oneTime<InstallationStart>('github-installation', 3600)

export async function startInstallation(
  { database, kv, config }: Service,
  caller: MemberCaller,
): Promise<Output<typeof contract.startInstallation>> {
  const { id } = caller.organization
  if (!config.github.app) throw notFound('github_app', id)
  await database.asOrg(id, async (sql) => {
    const [own] = await sql`select from github_apps`
    if (own) throw duplicate('github_app')
    await recordAudit(sql, trailOf(caller), 'github_app.installation_started', id, {})
  })
  const state = await installationState.issue(kv, { organization_id: id, user_id: caller.user.id })
  return { installation_url: `${platformAppUrl(config)}/installations/new?state=${state}` }
}

/**
 * Makes the installation the organization's. Returns false if it belongs to another one. A repository that was read
 * through a former installation is disconnected.
 */
export async function saveInstallation(
  { database }: Service,
  trail: Trail,
  app: PlatformApp,
  { installation_id, account }: { installation_id: number; account: string },
): Promise<boolean> {
  const { organizationId, actor } = trail
  try {
    await database.asOrg(organizationId, async (sql) => {
      await sql`
        insert into github_installations (organization_id, app_id, installation_id, account, installed_by)
        values (current_organization(), ${app.id}, ${installation_id}, ${account}, ${actor})
        on conflict (organization_id) do update set app_id = excluded.app_id,
          installation_id = excluded.installation_id, account = excluded.account,
          installed_by = excluded.installed_by, installed_at = now()`
      await disconnectOthers(sql, trail, installation_id)
      await recordAudit(sql, trail, 'github_app.installed', organizationId, { account, installation_id })
    })
    return true
  } catch (error) {
    if (isUniqueViolation(error, 'github_installations_installation')) return false
    throw error
  }
}

async function disconnectOthers(sql: Sql, trail: Trail, installationId: number): Promise<void> {
  const [gone] = await sql<{ repository: string }>`
    delete from github_repositories where installation_id <> ${installationId}
      and not exists (select from github_apps) returning full_name as repository`
  if (gone) await recordAudit(sql, trail, 'github_repository.disconnected', trail.organizationId, { ...gone })
}

export async function removeInstallation(
  { database }: Service,
  caller: OrgCaller,
): Promise<Output<typeof contract.removeInstallation>> {
  const { id } = caller.organization
  return database.asOrg(id, async (sql) => {
    const removed = await deleteInstallation(sql, trailOf(caller))
    if (!removed) throw notFound('github_installation', id)
    return { success: true, repo_disconnected: removed.repository !== null }
  })
}

/** Ends the organization's use of the operator's app, and of the repository that is read through it. */
export async function deleteInstallation(
  sql: Sql,
  trail: Trail,
): Promise<{ account: string; repository: string | null } | undefined> {
  const [removed] = await sql<{ account: string; installation_id: number }>`
    delete from github_installations returning account, installation_id`
  if (!removed) return undefined
  const { account, installation_id } = removed
  const [connected] = await sql<{ full_name: string }>`
    delete from github_repositories where installation_id = ${installation_id} returning full_name`
  const repository = connected?.full_name ?? null
  const data = { account, installation_id, repository }
  await recordAudit(sql, trail, 'github_app.installation_removed', trail.organizationId, data)
  return { account, repository }
}

/** Which organization an installation belongs to. */
export async function findInstallationOwner(
  { database }: Service,
  app: PlatformApp,
  installationId: number,
): Promise<string | undefined> {
  const [found] = await database.asGithubInstallation(
    installationId,
    (sql) => sql<{ organization_id: string }>`
      select organization_id from github_installations
      where installation_id = ${installationId} and app_id = ${app.id}`,
  )
  return found?.organization_id
}

export async function selectInstallation(sql: Sql, app: PlatformApp): Promise<{ installation_id: number } | undefined> {
  const [found] = await sql<{ installation_id: number }>`
    select installation_id from github_installations where app_id = ${app.id}`
  return found
}

/** The operator's app, and where the organization installed it. */
export async function selectPlatformApp(
  sql: Sql,
  config: Service['config'],
): Promise<Output<typeof contract.getApp>['platform_app']> {
  const { app } = config.github
  if (!app) return null
  const [installation] = await sql<{ account: string; installed_by: string; installed_at: string }>`
    select account, installed_by, installed_at from github_installations where app_id = ${app.id}`
  return { app_slug: app.slug, app_url: platformAppUrl(config), installation: installation ?? null }
}

/** GitHub Enterprise Server has another path for apps. */
export const platformAppUrl = ({ github: { url, apiUrl, app } }: Service['config']): string =>
  `${url}/${apiUrl.startsWith(`${url}/`) ? 'github-apps' : 'apps'}/${app?.slug}`
