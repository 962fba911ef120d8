import { randomUUID } from 'node:crypto'
import type { TestService } from '../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug, type ToolSample } from '../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export const fillTables = (app: TestService, slug: Slug) =>
  asOrg(
    app,
    slug,
    (sql) => sql`
      insert into subscriptions (organization_id, id, status, plan_id, product_id, customer_id, created_at, updated_at)
      values (current_organization(), ${randomUUID()}, 'canceled', 'free', 'x', 'x', now(), now())`,
  )

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
