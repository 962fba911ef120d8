import { randomInt } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug } from '../../../test/sample-helpers.ts'
import { endUser } from '../../visitors/end-users/samples.ts'
import type * as contract from './contract.ts'
import { reserveBudget } from './reservations.ts'

export async function fillTables(app: TestService, slug: Slug) {
  const { id } = await endUser(app, slug)
  await asOrg(app, slug, async (sql) => {
    await sql`insert into budgets (organization_id, scope, month_tokens) values (current_organization(), 'anonymous', 1000)`
    await sql`
      insert into end_user_budgets (organization_id, end_user_id, day_tokens) values (current_organization(), ${id}, 1000)`
    await reserveBudget(sql, { endUserId: id }, { tokens: 10, cost_micro_usd: 20 }, new Date(app.clock.now))
  })
}

/** Different each time, so that each request changes something. */
const newLimit = () => randomInt(1_000_000, 1_000_000_000)

export const operationSamples: OperationSamples<typeof contract> = {
  getBudgets: {},
  updateBudgets: { body: () => ({ organization: { month_tokens: newLimit() }, anonymous: { day_tokens: null } }) },
  getEndUserBudget: { prepare: endUser },
  updateEndUserBudget: { prepare: endUser, body: () => ({ day_tokens: 20_000 }) },
}
