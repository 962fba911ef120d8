import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export const fillTables = (app: TestService, slug: Slug) =>
  asOrg(
    app,
    slug,
    (sql) => sql`
      insert into audit_verifications (organization_id) values (current_organization()) on conflict do nothing`,
  )

export const operationSamples: OperationSamples<typeof contract> = {
  listAuditEvents: {},
  exportAuditEvents: {},
}
