import type { TestService } from '../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

/** An app as stored after GitHub's response, with fake secrets. */
export async function githubApp(app: TestService, slug: Slug, repository: string | null = null) {
  await noGithubApp(app, slug)
  await asOrg(
    app,
    slug,
    (sql) => sql`
      insert into github_apps (organization_id, github_org_name, app_id, app_slug, app_url, client_id,
        client_secret_sealed, private_key_sealed, webhook_secret_sealed, repository)
      values (current_organization(), 'sample', 4711, 'inlay-sample', 'https://github.com/apps/inlay-sample', 'Iv1.sample',
        'sealed-client-secret', 'sealed-private-key', 'sealed-webhook-secret', ${repository})`,
  )
  return {}
}

export async function noGithubApp(app: TestService, slug: Slug) {
  await asOrg(app, slug, (sql) => sql`delete from github_apps`)
  return {}
}

export const fillTables = (app: TestService, slug: Slug) => githubApp(app, slug)

export const operationSamples: OperationSamples<typeof contract> = {
  getGithubApp: {},
  startGithubAppManifest: { prepare: noGithubApp, body: () => ({ github_org_name: 'sample' }) },
  removeGithubApp: { prepare: githubApp },
}
