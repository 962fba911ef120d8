import { randomUUID } from 'node:crypto'
import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug, type ToolSample } from '../../../test/sample-helpers.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import type * as contract from './contract.ts'
import { billingSync } from './subscriptions.ts'

export const fillTables = (app: TestService, slug: Slug) =>
  asOrg(app, slug, async (sql) => {
    await sql`
      insert into subscriptions (organization_id, id, status, plan_id, product_id, customer_id, created_at, updated_at)
      values (current_organization(), ${randomUUID()}, 'canceled', 'free', 'x', 'x', now(), now())`
    await sql`insert into billing_deliveries (organization_id, id) values (current_organization(), ${randomUUID()})`
    // Later than the test, so that the server doesn't do it.
    await requestJob(sql, billingSync, { due: { inSeconds: 24 * 60 * 60 } })
    const id = randomUUID()
    await sql`
      insert into usage_events (organization_id, id, prompt_tokens, completion_tokens, model, finish_reason, created_at)
      values (current_organization(), ${id}, 1, 1, 'x', 'stop', now())`
    // Refused, so that the server doesn't report it, and later than the test, so that it doesn't delete it.
    await sql`
      insert into unreported_usage (organization_id, id, created_at, refusal, recorded_at)
      values (current_organization(), ${id}, now(), 'sample', now() + interval '1 day')`
  })

export const operationSamples: OperationSamples<typeof contract> = {
  getSubscription: {},
  getSubscriptionStatus: {},
  listProducts: {},
  getCheckoutUrl: { query: { product_id: 'inlay_team' } },
  getPortalUrl: {},
  syncSubscription: {},
}

export const toolSamples: Record<string, ToolSample> = {
  get_subscription: {
    valid: [{}, { detail: 'active_check' }, { detail: 'status' }, { detail: 'full' }],
    invalid: [[{ detail: 'none' }, 'detail']],
  },
  get_billing_url: {
    valid: [{ type: 'checkout', product_id: 'inlay_team' }],
    invalid: [
      [{}, 'type'],
      [{ type: 'checkout' }, 'product_id'],
      [{ type: 'checkout', product_id: '' }, 'product_id'],
      [{ type: 'refund' }, 'type'],
    ],
  },
  sync_subscription: { valid: [{}], invalid: [[{ force: true }, 'force']] },
}
