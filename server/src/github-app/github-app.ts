import { randomBytes } from 'node:crypto'
import { type OrgCaller, trailOf } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { duplicate, notFound } from '../lib/errors.ts'
import { fingerprint } from '../lib/secrets.ts'
import { recordAudit } from '../stores/audit/audit.ts'
import type { Sql } from '../stores/database.ts'
import type * as contract from './contract.ts'

type GithubApp = Output<typeof contract.getApp>

/** GitHub requires that a registration is completed within an hour. */
const stateLifetimeSeconds = 3600

/** Key of a registration's entry until the browser returns. Contains a hash of the state, not the state itself. */
export const manifestStateKey = (state: string) => `github-manifest:${fingerprint(state)}`

/** Who started the registration that a state belongs to. */
export interface ManifestState {
  organization_id: string
  user_id: string
  github_org_name: string
}

export async function getApp({ database }: Service, { organization }: OrgCaller): Promise<GithubApp> {
  const [app] = await database.asOrg(organization.id, (sql) => selectApp(sql))
  return app ?? notConfigured
}

export async function startManifest(
  { database, kv, config }: Service,
  caller: OrgCaller,
  { github_org_name }: Input<typeof contract.startManifest>,
): Promise<Output<typeof contract.startManifest>> {
  const { id } = caller.organization
  await database.asOrg(id, async (sql) => {
    const [existing] = await selectApp(sql)
    if (existing) throw duplicate('github_app')
    await recordAudit(sql, trailOf(caller), 'github_app.registration_started', id, { github_org_name })
  })
  const state = randomBytes(32).toString('base64url')
  const owner: ManifestState = { organization_id: id, user_id: caller.user.id, github_org_name }
  await kv.set(manifestStateKey(state), owner, stateLifetimeSeconds)
  return {
    success: true,
    github_org_name,
    registration_url: `https://github.com/organizations/${github_org_name}/settings/apps/new?state=${state}`,
    manifest: JSON.stringify(makeManifest(config, github_org_name)),
  }
}

export async function removeApp({ database }: Service, caller: OrgCaller): Promise<Output<typeof contract.removeApp>> {
  const { id } = caller.organization
  return database.asOrg(id, async (sql) => {
    const [removed] = await sql<Pick<GithubApp, 'github_org_name' | 'app_slug' | 'repository'>>`
      delete from github_apps returning github_org_name, app_slug, repository`
    if (!removed) throw notFound('github_app', id)
    await recordAudit(sql, trailOf(caller), 'github_app.removed', id, { ...removed })
    return { success: true, repo_disconnected: removed.repository !== null }
  })
}

function makeManifest({ publicUrl, mode }: Service['config'], githubOrgName: string) {
  return {
    // GitHub requires globally unique names of at most 34 characters.
    name: `inlay-${githubOrgName.slice(0, 21)}-${randomBytes(3).toString('hex')}`,
    url: publicUrl,
    redirect_url: `${publicUrl}/api/org-github-apps/callback`,
    // GitHub cannot reach a development machine.
    hook_attributes: { url: `${publicUrl}/api/org-github-apps/webhook`, active: mode === 'production' },
    public: false,
    default_permissions: { contents: 'read', metadata: 'read' },
    default_events: ['push'],
  }
}

const notConfigured: GithubApp = {
  configured: false,
  github_org_name: null,
  app_id: null,
  app_slug: null,
  app_url: null,
  repository: null,
  created_at: null,
}

const selectApp = (sql: Sql) => sql<GithubApp>`
  select true as configured, github_org_name, app_id, app_slug, app_url, repository, created_at from github_apps`
