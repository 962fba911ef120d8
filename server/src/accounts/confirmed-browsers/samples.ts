import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../../test/sample-helpers.ts'
import { addEndUser } from '../../../test/usage-records.ts'
import type * as contract from './contract.ts'

const endUser = async (app: TestService, slug: Slug) => ({ id: await addEndUser(app, await app.organization(slug)) })

async function browser(app: TestService, slug: Slug): Promise<{ id: string }> {
  const { id: endUserId } = await endUser(app, slug)
  const id = randomUUID()
  await asOrg(app, slug, async (sql) => {
    await sql`
      insert into confirmed_browsers (organization_id, id, end_user_id, browser_fingerprint, how, issuer, expires_at)
      values (current_organization(), ${id}, ${endUserId}, 'sample', 'provider', 'https://sso.example.com', now() + interval '1 day')`
    await sql`
      insert into frame_keys (organization_id, end_user_id, thumbprint, browser_id)
      values (current_organization(), ${endUserId}, 'sample', ${id})`
  })
  return { id }
}

const provider = (app: TestService, slug: Slug): Promise<Record<string, string>> =>
  asOrg(app, slug, async (sql) => {
    await sql`
      insert into identity_providers (organization_id, idp_type, idp_issuer)
      values (current_organization(), 'custom_oidc', 'https://sso.example.com')
      on conflict (organization_id) do update set idp_type = excluded.idp_type, idp_issuer = excluded.idp_issuer`
    return {}
  })

export async function fillTables(app: TestService, slug: Slug): Promise<void> {
  await browser(app, slug)
  await asOrg(app, slug, async (sql) => {
    await sql`
      insert into frame_sign_in (organization_id, issuer, client_id)
      values (current_organization(), 'https://sso.example.com', 'inlay') on conflict do nothing`
  })
}

export const operationSamples: OperationSamples<typeof contract> = {
  getFrameSignIn: {},
  setFrameSignIn: {
    prepare: provider,
    body: () => ({ client_id: 'inlay', client_secret: 'sample-secret' }),
  },
  deleteFrameSignIn: {},
  listConfirmedBrowsers: { prepare: endUser },
  removeConfirmedBrowser: { prepare: browser },
}
