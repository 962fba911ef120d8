import type { OperationSamples, ToolSample } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export const operationSamples: OperationSamples<typeof contract> = {
  listPlans: {},
  getPlanInfo: {},
  getPlanUsage: {},
  checkFeature: { body: () => ({ feature: 'sso' }) },
}

export const toolSamples: Record<string, ToolSample> = {
  list_plans: { valid: [{}], invalid: [[{ x: 1 }, 'x']] },
  get_plan_info: {
    valid: [{}, { include: 'basic' }, { include: 'features' }, { include: 'usage' }, { include: 'all' }],
    invalid: [[{ include: 'everything' }, 'include']],
  },
  check_feature: {
    valid: [{ feature: 'sso' }, { feature: 'seats', current_usage: 0 }],
    invalid: [
      [{}, 'feature'],
      [{ feature: 'sites' }, 'feature'],
      [{ feature: 'seats', current_usage: -1 }, 'current_usage'],
      [{ feature: 'seats', current_usage: '1' }, 'current_usage'],
    ],
  },
}
