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
  await app.service.database.asOrg(
    organizationId,
    (sql) => sql`
      insert into usage_rankings (organization_id, span, asked_at) values (current_organization(), '30', now())`,
  )
  await app.service.database.asOrg(
    organizationId,
    (sql) => sql`
      insert into usage_ranked_end_users
        (organization_id, span, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
      values (current_organization(), '30', ${end_user_id}, 1, 10, 5, 40)`,
  )
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
