import { z } from 'zod'
import { operation } from '../operation.ts'
import { Timestamp } from '../shapes.ts'

export const PlanLimits = z
  .strictObject({
    seats: z.int().min(0),
    end_users: z.int().min(0),
    sites: z.int().min(0),
    skills: z.int().min(0),
  })
  .describe('0 means unlimited')
  .meta({ id: 'PlanLimits' })

export const PlanFeatures = z
  .strictObject({
    sso: z.boolean(),
    scim: z.boolean(),
    audit_logs: z.boolean(),
    custom_domains: z.boolean(),
    end_users: z.boolean().describe('Whether more of them are available'),
    seats: z.boolean().describe('Whether more of them are available'),
  })
  .meta({ id: 'PlanFeatures' })

const Plan = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    description: z.string(),
    features: PlanFeatures,
    limits: PlanLimits,
    created_at: Timestamp,
    updated_at: Timestamp,
  })
  .meta({ id: 'Plan' })

const PlanInfo = z
  .strictObject({
    plan: z.strictObject({ id: z.string(), name: z.string(), description: z.string() }),
    features: PlanFeatures.optional(),
    limits: PlanLimits.optional(),
    usage: z.strictObject({ seats_used: z.int(), end_users_used: z.int() }).optional(),
  })
  .meta({ id: 'PlanInfo' })

const plans = { tag: 'Plans', access: 'org' } as const

export const listPlans = operation({
  ...plans,
  id: 'listPlans',
  method: 'get',
  path: '/plan-tiers',
  summary: 'Every plan, the smallest first',
  response: z.strictObject({ plans: z.array(Plan), count: z.int() }),
  errors: [],
})

export const getPlanInfo = operation({
  ...plans,
  id: 'getPlanInfo',
  method: 'get',
  path: '/plan-tiers/current',
  summary: 'The organization’s plan, and how much of it is used',
  query: z.strictObject({
    include: z
      .enum(['basic', 'features', 'usage', 'all'])
      .default('all')
      .describe('`basic` is the plan alone, `features` adds features and limits, `usage` adds limits and usage'),
  }),
  response: PlanInfo,
  errors: [],
})

export const checkFeature = operation({
  ...plans,
  id: 'checkFeature',
  method: 'post',
  path: '/plan-tiers/check-feature',
  summary: 'Whether the organization’s plan allows a feature, or one more of what it limits',
  body: z.strictObject({
    feature: PlanFeatures.keyof(),
    current_usage: z.number().min(0).optional().describe('Instead of what the organization uses, for limited features'),
  }),
  response: z.strictObject({
    feature: PlanFeatures.keyof(),
    allowed: z.boolean(),
    reason: z.string().nullable().describe('Why not; null when allowed'),
  }),
  errors: [],
})
