import { z } from 'zod'
import { tool } from '../../kernel/foundation/tool.ts'
import * as contract from './contract.ts'
import * as plans from './plans.ts'

const readOnly = { readOnlyHint: true, idempotentHint: true, openWorldHint: false } as const

export const listPlans = tool({
  name: 'list_plans',
  title: 'List plans',
  description: 'Lists all plans, smallest first, with their features and limits. A limit of 0 means unlimited.',
  access: 'user',
  input: z.strictObject({}),
  output: contract.listPlans.response,
  annotations: readOnly,
  handler: plans.listPlans,
})

export const getPlanInfo = tool({
  name: 'get_plan_info',
  title: 'Get the current plan',
  description:
    'Returns the current organization’s plan: its features, its limits, and how much of it is used. A limit of 0 means unlimited.',
  access: 'org',
  input: contract.getPlanInfo.query,
  output: contract.getPlanInfo.response,
  annotations: readOnly,
  handler: plans.getPlanInfo,
})

export const checkFeature = tool({
  name: 'check_feature',
  title: 'Check a feature',
  description:
    'Checks whether the current organization’s plan allows a feature or, for `end_users` and `seats`, one more. If not, `reason` explains why. Use it before you offer to set something up.',
  access: 'org',
  input: contract.checkFeature.body,
  output: contract.checkFeature.response,
  annotations: readOnly,
  handler: plans.checkFeature,
})
