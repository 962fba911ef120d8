import { randomUUID } from 'node:crypto'
import { foundOrganization } from '../src/organizations/organizations.ts'
import { startThread } from '../src/threads/threads.ts'
import { findUserByEmail } from '../src/users/local-accounts.ts'
import type { Email, TestService } from './harness.ts'
import { addSite } from './usage-records.ts'

type Slug = 'demo' | 'other'

/** A successful request for each operation, for tests that call every operation. */
export interface Sample {
  /** Creates the resource in one organization, and returns the path's parameters. */
  prepare?: (app: TestService, slug: Slug) => Promise<Record<string, string>>
  query?: Record<string, string>
  body?: () => unknown
  /** Reverts changes that would break later requests. */
  undo?: (app: TestService, email: Email, slug: Slug) => Promise<void>
}

const admins = { demo: 'admin@demo.test', other: 'admin@other.test' } as const

async function post(app: TestService, slug: Slug, path: string, body: unknown): Promise<Record<string, string>> {
  const token = await app.tokenFor(admins[slug], slug)
  const answer = await app.request('POST', path, { token, body })
  if (answer.status !== 200) throw new Error(`POST ${path}: ${JSON.stringify(answer.body)}`)
  return { id: answer.body.id }
}

const newEmail = () => `${randomUUID()}@example.com`
const key = (app: TestService, slug: Slug) => post(app, slug, '/publishable-keys', { name: 'Sample' })

const invitation = (app: TestService, slug: Slug) =>
  post(app, slug, '/organizations/current/invitations', { email: newEmail(), role: 'member' })

/** An invitation to a new organization, for the admin of demo, or, for the other slug, for another address. */
async function myInvitation(app: TestService, slug: Slug) {
  const founder = await findUserByEmail(app.service, 'admin@other.test')
  if (!founder) throw new Error('The demo has no admin@other.test')
  const organization = await foundOrganization(app.service, { name: 'Inviting', founder })
  const id = randomUUID()
  await app.service.database.asOrg(
    organization.id,
    (sql) => sql`
      insert into invitations (organization_id, id, email, role, invited_by)
      values (current_organization(), ${id}, ${slug === 'demo' ? 'admin@demo.test' : newEmail()}, 'member', 'admin@other.test')`,
  )
  return { id }
}

/** Adds a second admin, so that the first can leave. */
async function anotherAdmin(app: TestService, slug: Slug) {
  const { id } = await member(app, slug)
  await app.service.database.asOrg(
    await app.organization(slug),
    (sql) => sql`update members set role = 'admin' where id = ${id}`,
  )
  return {}
}

async function comeBack(app: TestService, email: Email, slug: Slug) {
  const user = await findUserByEmail(app.service, email)
  await app.service.database.asOrg(
    await app.organization(slug),
    (sql) => sql`
      insert into members (organization_id, id, user_id, role)
      values (current_organization(), ${randomUUID()}, ${user?.id}, ${email.startsWith('admin') ? 'admin' : 'member'})`,
  )
}

async function endUser(app: TestService, slug: Slug) {
  const id = randomUUID()
  await app.service.database.asOrg(
    await app.organization(slug),
    (sql) =>
      sql`insert into end_users (organization_id, id, external_id) values (current_organization(), ${id}, ${id})`,
  )
  return { id }
}

const usageOwner = async (app: TestService, slug: Slug) => ({ end_user_id: (await endUser(app, slug)).id })

const thread = async (app: TestService, slug: Slug) => ({
  id: await app.service.database.asOrg(await app.organization(slug), (sql) =>
    startThread(sql, { endUserId: null, siteId: null }),
  ),
})

/** A site with usage whose origin is no longer allowed. */
const site = async (app: TestService, slug: Slug) => ({ id: await addSite(app, await app.organization(slug)) })

const newDirectory = () => ({ name: 'Sample', type: 'okta', domain: `d-${randomUUID()}.example` })
const directory = (app: TestService, slug: Slug) => post(app, slug, '/directories', newDirectory())

/** Adds a member who can be changed and removed, so that the last admin stays. */
async function member(app: TestService, slug: Slug) {
  const organizationId = await app.organization(slug)
  const [id, user] = [randomUUID(), randomUUID()]
  await app.service.database.asOrg(organizationId, async (sql) => {
    await sql`insert into users (id, issuer, subject, email, name) values (${user}, 'local', ${user}, ${newEmail()}, 'Sample')`
    await sql`insert into members (organization_id, id, user_id, role) values (${organizationId}, ${id}, ${user}, 'member')`
  })
  return { id }
}

/** An app as stored after GitHub's response, with fake secrets. */
export async function githubApp(app: TestService, slug: Slug, repository: string | null = null) {
  await noGithubApp(app, slug)
  await app.service.database.asOrg(
    await app.organization(slug),
    (sql) => sql`
      insert into github_apps (organization_id, github_org_name, app_id, app_slug, app_url, client_id,
        client_secret_sealed, private_key_sealed, webhook_secret_sealed, repository)
      values (current_organization(), 'sample', 4711, 'inlay-sample', 'https://github.com/apps/inlay-sample', 'Iv1.sample',
        'sealed-client-secret', 'sealed-private-key', 'sealed-webhook-secret', ${repository})`,
  )
  return {}
}

export async function noGithubApp(app: TestService, slug: Slug) {
  await app.service.database.asOrg(await app.organization(slug), (sql) => sql`delete from github_apps`)
  return {}
}

const newConnector = () => ({
  name: `c-${randomUUID().slice(0, 8)}`,
  kind: 'id_jag',
  server_url: 'http://127.0.0.1:9/mcp',
  client_id: 'hub',
  client_secret: 'sample-secret',
})
const connector = (app: TestService, slug: Slug) => post(app, slug, '/connectors', newConnector())

/** A SKILL.md with a unique name. */
const skillText = () => `---\nname: sample-${randomUUID()}\ndescription: Use it for samples.\n---\n# Sample\n`
const skill = (app: TestService, slug: Slug) => post(app, slug, '/organization-skills', { content: skillText() })

async function callWithContents({ organization, service }: TestService, slug: Slug) {
  const id = randomUUID()
  await service.database.asOrg(
    await organization(slug),
    (sql) => sql`
      insert into tool_call_contents (organization_id, call_id, user_email, arguments, result, at, expires_at)
      values (current_organization(), ${id}, 'ann@example.com', '{}', '{}', now(), now() + interval '1 day')`,
  )
  return { id }
}

export const samples: Record<string, Sample> = {
  getCurrentUser: {},
  logout: {},

  listOrganizations: {},
  createOrganization: { body: () => ({ name: 'Sample' }) },
  getOrganization: { prepare: async (app, slug) => ({ id: await app.organization(slug) }) },
  getOrganizationBySlug: { prepare: async (_, slug) => ({ slug }) },
  listMembers: {},
  updateMember: { prepare: member, body: () => ({ role: 'admin' }) },
  removeMember: { prepare: member },
  leaveOrganization: { prepare: anotherAdmin, undo: comeBack },
  listInvitations: {},
  createInvitation: { body: () => ({ email: newEmail(), role: 'member' }) },
  deleteInvitation: { prepare: invitation },
  listMyInvitations: {},
  acceptInvitation: { prepare: myInvitation },
  declineInvitation: { prepare: myInvitation },

  listPublishableKeys: {},
  createPublishableKey: { body: () => ({ name: 'Sample', allowed_origins: ['https://app.example.com'] }) },
  updatePublishableKey: { prepare: key, body: () => ({ name: 'Renamed' }) },
  revealPublishableKey: { prepare: key },
  revokePublishableKey: { prepare: key },
  exchangeTicket: { body: () => ({ publishable_key: 'pk_test_sample' }) },

  getIdentityProviderConfig: {},
  updateIdentityProviderConfig: { body: () => ({ idp_type: 'google', allowed_domains: ['https://app.example.com'] }) },
  testIdentityProvider: { body: () => ({ idp_type: 'custom_oidc', idp_issuer: 'http://127.0.0.1:9' }) },
  getAllowedDomains: {},
  setAllowedDomains: { body: () => ({ allowed_domains: ['https://app.example.com'] }) },
  listSites: {},
  deleteSite: { prepare: site },

  listEndUsers: {},
  getEndUser: { prepare: endUser },
  eraseEndUser: { prepare: endUser },

  listHubSources: {},
  listHubTools: {},
  listToolCalls: {},
  getToolCallSettings: {},
  updateToolCallSettings: { body: () => ({ contents_days: 0 }) },
  getToolCallContents: { prepare: callWithContents },

  listConnectors: {},
  createConnector: { body: newConnector },
  getConnector: { prepare: connector },
  updateConnector: { prepare: connector, body: () => ({ status: 'disabled' }) },
  deleteConnector: { prepare: connector },
  testConnector: { prepare: connector },

  listSkills: {},
  createSkill: { body: () => ({ content: skillText() }) },
  getSkill: { prepare: skill },
  patchSkill: {
    prepare: skill,
    body: () => ({ patch: { version: 1, operations: [{ type: 'replace', before: '# Sample', after: '# New' }] } }),
  },
  archiveSkill: { prepare: skill },
  listSkillVersions: { prepare: skill },
  getSkillVersion: { prepare: async (app, slug) => ({ ...(await skill(app, slug)), version: '1' }) },
  restoreSkill: { prepare: skill, body: () => ({ version: 1 }) },

  listRefusals: {},
  listWarnings: {},

  getGovernanceProvider: {},
  updateGovernanceProvider: { body: () => ({ interceptor_name: 'sample', is_enabled: true }) },
  clearGovernanceProvider: {},
  testGovernanceProvider: {
    body: () => ({ interceptor_url: 'https://10.0.0.1/', interceptor_name: 'sample', api_key: 'sample-key' }),
  },

  getGithubApp: {},
  startGithubAppManifest: { prepare: noGithubApp, body: () => ({ github_org_name: 'sample' }) },
  removeGithubApp: { prepare: githubApp },

  getDailyUsage: {},
  getUsageStats: {},
  listSiteUsage: {},
  listEndUserUsage: {},
  getEndUserUsageStats: { prepare: usageOwner },
  listEndUserUsageHistory: { prepare: usageOwner },

  listThreads: {},
  listEndUserThreads: { prepare: endUser },
  getThreadAnalytics: {},
  getThread: { prepare: thread },
  updateThread: { prepare: thread, body: () => ({ title: 'Renamed' }) },

  listPlans: {},
  getPlanInfo: {},
  checkFeature: { body: () => ({ feature: 'sso' }) },

  getSubscription: {},
  getSubscriptionStatus: {},
  getCheckoutUrl: { query: { product_id: 'inlay_team' } },
  getPortalUrl: {},
  syncSubscription: {},

  getDirectoryStatus: {},
  listDirectories: {},
  createDirectory: { body: newDirectory },
  getDirectory: { prepare: directory },
  updateDirectory: { prepare: directory, body: () => ({ name: 'Renamed' }) },
  deleteDirectory: { prepare: directory },
  listDirectoryUsers: { prepare: directory },
  listDirectoryGroups: { prepare: directory },

  listAuditEvents: {},
  exportAuditEvents: {},
}
