import type { TestService } from '../../../test/harness.ts'
import type { OperationSamples, Slug } from '../../../test/sample-helpers.ts'
import { addEndUser, addSite, usageRecord } from '../../../test/usage-records.ts'
import { endUser } from '../../visitors/end-users/samples.ts'
import type * as contract from './contract.ts'
import { recordUsage } from './record.ts'

export async function fillTables(app: TestService, slug: Slug) {
  const organizationId = await app.organization(slug)
  const [end_user_id, site_id] = [await addEndUser(app, organizationId), await addSite(app, organizationId)]
  await recordUsage(app.service, usageRecord(organizationId, { end_user_id, site_id }))
}

const usageOwner = async (app: TestService, slug: Slug) => ({ end_user_id: (await endUser(app, slug)).id })

export const operationSamples: OperationSamples<typeof contract> = {
  getDailyUsage: {},
  getUsageStats: {},
  listSiteUsage: {},
  listEndUserUsage: {},
  listModelUsage: {},
  getEndUserUsageStats: { prepare: usageOwner },
  listEndUserUsageHistory: { prepare: usageOwner },
}
