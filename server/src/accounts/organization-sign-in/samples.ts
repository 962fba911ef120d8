import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

const domain = (app: TestService, slug: Slug): Promise<{ id: string }> =>
  asOrg(app, slug, async (sql) => {
    const id = randomUUID()
    await sql`
      insert into sign_in_domains (organization_id, id, domain, token)
      values (current_organization(), ${id}, ${`${id}.example`}, 'sample')`
    return { id }
  })

export async function fillTables(app: TestService, slug: Slug): Promise<void> {
  await domain(app, slug)
  await asOrg(app, slug, async (sql) => {
    await sql`
      insert into sign_in_providers (organization_id, issuer, client_id)
      values (current_organization(), 'https://sso.example.com', 'inlay') on conflict do nothing`
  })
}

export const operationSamples: OperationSamples<typeof contract> = {
  getOrganizationSignIn: {},
  setSignInProvider: {
    body: () => ({ issuer: 'https://sso.example.com', client_id: 'inlay', client_secret: 'sample-secret' }),
  },
  deleteSignInProvider: {},
  addSignInDomain: { body: () => ({ domain: `${randomUUID()}.example` }) },
  verifySignInDomain: { prepare: domain },
  removeSignInDomain: { prepare: domain },
}
