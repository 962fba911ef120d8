import type { TestService } from '../../../test/harness.ts'
import type { OperationSamples, Slug } from '../../../test/sample-helpers.ts'
import { addSite } from '../../../test/usage-records.ts'
import type * as contract from './contract.ts'

/** A site with usage whose origin is no longer allowed. */
const site = async (app: TestService, slug: Slug) => ({ id: await addSite(app, await app.organization(slug)) })

export const fillTables = site

export const operationSamples: OperationSamples<typeof contract> = {
  listSites: {},
  deleteSite: { prepare: site },
}
