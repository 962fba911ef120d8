import { generateKeyPairSync } from 'node:crypto'
import { startGithub } from '../../../test/github.ts'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../../test/sample-helpers.ts'
import type { PlatformApp } from '../../kernel/config/config.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import type * as contract from './contract.ts'
import { saveApp } from './github-app.ts'
import { saveInstallation } from './installations.ts'
import { codeSync } from './sync.ts'

/** One for all samples. It doesn't keep the process alive. */
let running: ReturnType<typeof startGithub> | undefined

/** Points the service to a local GitHub, and stores an app that is installed there. */
export async function githubApp(app: TestService, slug: Slug) {
  await noGithubApp(app, slug)
  running ??= startGithub()
  const github = await running
  Object.assign(app.service.config.github, { url: github.url, apiUrl: github.apiUrl })
  github.createRepository('sample/skills')
  const code = github.register({ name: `inlay-sample-${slug}`, redirect_url: '' }, 'sample')
  const created = await app.service.github.convertManifest(code)
  github.install(created.id)
  const organization_id = await app.organization(slug)
  await saveApp(
    app.service,
    { organization_id, user_id: '', github_org_name: 'sample' },
    { id: organization_id, email: 'sample@example.com' },
    created,
  )
  return {}
}

/** As if the operator had configured an app. */
async function platformApp(app: TestService, slug: Slug) {
  await noGithubApp(app, slug)
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  app.service.config.github.app ??= {
    id: 1,
    slug: 'inlay',
    clientId: 'Iv23.1',
    clientSecret: 'sample',
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    webhookSecret: 'sample-webhook-secret',
  }
  return {}
}

async function installation(app: TestService, slug: Slug) {
  await platformApp(app, slug)
  const organizationId = await app.organization(slug)
  const installation_id = slug === 'demo' ? 1 : 2
  const platform = app.service.config.github.app as PlatformApp
  const trail = { organizationId, actor: 'sample@example.com' }
  await saveInstallation(app.service, trail, platform, { installation_id, account: 'sample' })
  return {}
}

export async function noGithubApp(app: TestService, slug: Slug) {
  await asOrg(app, slug, async (sql) => {
    await sql`delete from github_repositories`
    await sql`delete from github_apps`
    await sql`delete from github_installations`
  })
  return {}
}

/** A connected repository. It isn't synced, because tests compare the rows of tables. */
export async function githubRepository(app: TestService, slug: Slug) {
  await githubApp(app, slug)
  await asOrg(app, slug, async (sql) => {
    await sql`
        insert into github_repositories (organization_id, repository_id, full_name, url, default_branch,
          installation_id, connected_by)
        values (current_organization(), 1, 'sample/skills', 'https://github.com/sample/skills', 'main', 1,
          'sample@example.com')`
    await requestJob(sql, codeSync, { due: { inSeconds: 24 * 60 * 60 } })
  })
  return {}
}

export async function fillTables(app: TestService, slug: Slug) {
  await githubRepository(app, slug)
  await asOrg(
    app,
    slug,
    (sql) => sql`
      insert into github_installations (organization_id, app_id, installation_id, account, installed_by)
      values (current_organization(), 1, ${slug === 'demo' ? 1 : 2}, 'sample', 'sample@example.com')`,
  )
  await asOrg(
    app,
    slug,
    (sql) => sql`
      insert into github_deliveries (organization_id, delivery_id) values (current_organization(), 'sample')
      on conflict do nothing`,
  )
}

export const operationSamples: OperationSamples<typeof contract> = {
  getGithubApp: {},
  startGithubAppManifest: { prepare: noGithubApp, body: () => ({ github_org_name: 'sample' }) },
  removeGithubApp: { prepare: githubRepository },
  startGithubInstallation: { prepare: platformApp },
  removeGithubInstallation: { prepare: installation },
  listGithubRepositories: { prepare: githubApp },
  getGithubRepository: { prepare: githubRepository },
  connectGithubRepository: { prepare: githubApp, body: () => ({ repository: 'sample/skills' }) },
  disconnectGithubRepository: { prepare: githubRepository },
  syncGithubRepository: { prepare: githubRepository },
}
