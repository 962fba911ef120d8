import { createPrivateKey, randomBytes } from 'node:crypto'
import { type MemberCaller, type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { duplicate, notFound } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import type { AppCredentials, Conversion } from '../github/github.ts'
import { GithubError } from '../github/github-errors.ts'
import type * as contract from './contract.ts'
import { selectInstallation, selectPlatformApp } from './installations.ts'

type GithubApp = Output<typeof contract.getApp>
type OwnApp = Omit<GithubApp, 'repository' | 'platform_app'>

/** Who started a registration. */
export interface Registration {
  organization_id: string
  user_id: string
  github_org_name: string
}

/** GitHub requires that a registration is completed within an hour. */
export const registrationState = oneTime<Registration>('github-manifest', 3600)

export async function getApp({ database, config }: Service, { organization }: OrgCaller): Promise<GithubApp> {
  return database.asOrg(organization.id, async (sql) => {
    const [app = notConfigured] = await selectApp(sql)
    const [connected] = await sql<{ repository: string }>`select full_name as repository from github_repositories`
    return { ...app, repository: connected?.repository ?? null, platform_app: await selectPlatformApp(sql, config) }
  })
}

export async function startManifest(
  { database, kv, config }: Service,
  caller: MemberCaller,
  { github_org_name }: Input<typeof contract.startManifest>,
): Promise<Output<typeof contract.startManifest>> {
  const { id } = caller.organization
  await database.asOrg(id, async (sql) => {
    const [existing] = await selectApp(sql)
    if (existing) throw duplicate('github_app')
    await recordAudit(sql, trailOf(caller), 'github_app.registration_started', id, { github_org_name })
  })
  const state = await registrationState.issue(kv, { organization_id: id, user_id: caller.user.id, github_org_name })
  return {
    success: true,
    github_org_name,
    registration_url: `${config.github.url}/organizations/${github_org_name}/settings/apps/new?state=${state}`,
    manifest: JSON.stringify(makeManifest(config, caller.organization, github_org_name)),
  }
}

/** Stores the app that GitHub created. Returns false if the organization already has one. */
export async function saveApp(
  { database, secrets }: Service,
  { organization_id, github_org_name }: Registration,
  admin: { id: string; email: string },
  app: Conversion,
): Promise<boolean> {
  const { login } = app.owner
  if (login.toLowerCase() !== github_org_name.toLowerCase()) {
    throw new GithubError('refused', `The app belongs to ${login} on GitHub, not to ${github_org_name}`)
  }
  requirePrivateKey(app.pem)
  const seal = (column: string, secret: string) => secrets.seal(secret, placeOf(column, organization_id))
  const { webhook_secret } = app
  return database.asOrg(organization_id, async (sql) => {
    const [saved] = await sql`
      insert into github_apps (organization_id, github_org_name, app_id, app_slug, app_url, client_id,
        client_secret_sealed, client_secret_last4, private_key_sealed, webhook_secret_sealed, webhook_secret_last4)
      values (current_organization(), ${login}, ${app.id}, ${app.slug}, ${app.html_url}, ${app.client_id},
        ${seal('client_secret_sealed', app.client_secret)}, ${app.client_secret.slice(-4)},
        ${seal('private_key_sealed', app.pem)},
        ${webhook_secret && seal('webhook_secret_sealed', webhook_secret)}, ${webhook_secret?.slice(-4) ?? null})
      on conflict do nothing returning true`
    if (!saved) return false
    const trail = { organizationId: organization_id, actor: admin.email, actorId: admin.id }
    const data = { github_org_name: login, app_id: app.id, app_slug: app.slug }
    await recordAudit(sql, trail, 'github_app.registered', organization_id, data)
    // It was connected through the operator's app.
    const [repository] = await sql`delete from github_repositories returning full_name as repository`
    if (repository) await recordAudit(sql, trail, 'github_repository.disconnected', organization_id, repository)
    return true
  })
}

export async function removeApp({ database }: Service, caller: OrgCaller): Promise<Output<typeof contract.removeApp>> {
  const { id } = caller.organization
  return database.asOrg(id, async (sql) => {
    const [removed] = await sql<Pick<GithubApp, 'github_org_name' | 'app_slug'>>`
      delete from github_apps returning github_org_name, app_slug`
    if (!removed) throw notFound('github_app', id)
    const [connected] = await sql<{ full_name: string }>`delete from github_repositories returning full_name`
    const repository = connected?.full_name ?? null
    await recordAudit(sql, trailOf(caller), 'github_app.removed', id, { ...removed, repository })
    return { success: true, repo_disconnected: repository !== null }
  })
}

/** The credentials of the organization's app, or of the operator's where the organization installed it. */
export async function readAppCredentials(
  { database, secrets, config }: Service,
  organizationId: string,
): Promise<AppCredentials | undefined> {
  return database.asOrg(organizationId, async (sql) => {
    const [own] = await sql<{ app_id: number; private_key_sealed: string }>`
      select app_id, private_key_sealed from github_apps`
    if (own) {
      const private_key = secrets.open(own.private_key_sealed, placeOf('private_key_sealed', organizationId))
      return { app_id: own.app_id, private_key }
    }
    const shared = config.github.app
    const installation = shared && (await selectInstallation(sql, shared))
    return installation && { app_id: shared.id, private_key: shared.privateKey, ...installation }
  })
}

/** Keeps the app from being removed until the transaction ends. Returns false if it was removed already. */
export async function holdApp(sql: Sql, { app_id, installation_id }: AppCredentials): Promise<boolean> {
  const [held] = installation_id
    ? await sql`
        select from github_installations where app_id = ${app_id} and installation_id = ${installation_id}
          and not exists (select from github_apps) for key share`
    : await sql`select from github_apps where app_id = ${app_id} for key share`
  return held !== undefined
}

/** The secret that GitHub signs the app's webhooks with; undefined if there is none. */
export async function readWebhookSecret(
  { database, secrets }: Service,
  organizationId: string,
): Promise<string | undefined> {
  const [app] = await database.asOrg(
    organizationId,
    (sql) => sql<{ sealed: string | null }>`select webhook_secret_sealed as sealed from github_apps`,
  )
  return app?.sealed ? secrets.open(app.sealed, placeOf('webhook_secret_sealed', organizationId)) : undefined
}

/** The form that `inlay secret rotate` expects. */
const placeOf = (column: string, organizationId: string) => `github_apps.${column}:${organizationId}`

function requirePrivateKey(pem: string): void {
  try {
    createPrivateKey(pem)
  } catch (cause) {
    throw new GithubError('refused', 'GitHub sent a private key that can’t be read', { cause })
  }
}

function makeManifest(
  { publicUrl, mode }: Service['config'],
  { id, slug }: OrgCaller['organization'],
  githubOrgName: string,
) {
  return {
    // GitHub requires globally unique names of at most 34 characters.
    name: `inlay-${githubOrgName.slice(0, 21)}-${randomBytes(3).toString('hex')}`,
    url: publicUrl,
    redirect_url: `${publicUrl}/api/org-github-apps/callback`,
    // GitHub sends users there after they have installed the app.
    setup_url: `${publicUrl}/o/${slug}/code-host`,
    // GitHub cannot reach a development machine.
    hook_attributes: { url: `${publicUrl}/api/org-github-apps/webhook/${id}`, active: mode === 'production' },
    public: false,
    default_permissions: { contents: 'read', metadata: 'read' },
    default_events: ['push'],
  }
}

const notConfigured: OwnApp = {
  configured: false,
  github_org_name: null,
  app_id: null,
  app_slug: null,
  app_url: null,
  installation_url: null,
  client_secret_last4: null,
  webhook_secret_last4: null,
  created_at: null,
}

const selectApp = (sql: Sql) => sql<OwnApp>`
  select true as configured, github_org_name, app_id, app_slug, app_url,
    app_url || '/installations/new' as installation_url, client_secret_last4, webhook_secret_last4, created_at
  from github_apps`
