import { z } from 'zod'
import { PlanFeatures, PlanLimits } from '../../kernel/config/plan-file.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Timestamp } from '../../kernel/foundation/shapes.ts'

const Plan = z
  .strictObject({
    id: z.string().describe('ID of the plan, such as `free`, `team` or `enterprise`'),
    name: z.string().describe('Display name'),
    description: z.string().describe('What the plan is for'),
    features: PlanFeatures.describe('Features that the plan includes'),
    limits: PlanLimits.describe('Limits of the plan'),
    created_at: Timestamp.describe('When the plan was created'),
    updated_at: Timestamp.describe('When the plan was last changed'),
  })
  .meta({ id: 'Plan' })

const PlanInfo = z
  .strictObject({
    plan: z
      .strictObject({
        id: z.string().describe('ID of the plan'),
        name: z.string().describe('Display name of the plan'),
        description: z.string().describe('What the plan is for'),
      })
      .describe('The organization’s plan'),
    features: PlanFeatures.optional().describe(
      'Features that the plan includes; returned if `include` is `features` or `all`',
    ),
    limits: PlanLimits.optional().describe('Limits of the plan; omitted if `include` is `basic`'),
    usage: z
      .strictObject({
        seats_used: z.int().describe('Number of members and open invitations'),
        end_users_used: z.int().describe('Number of end users'),
      })
      .optional()
      .describe('How much of the plan is used; returned if `include` is `usage` or `all`'),
  })
  .meta({ id: 'PlanInfo' })

const plans = { tag: 'Plans', access: 'org' } as const

const examplePlanLimits = { seats: 25, end_users: 5000, sites: 10, skills: 200 } as const

const examplePlanFeatures = {
  sso: true,
  scim: false,
  audit_logs: false,
  custom_domains: false,
  end_users: true,
  seats: true,
} as const

export const listPlans = operation({
  ...plans,
  id: 'listPlans',
  method: 'get',
  path: '/plan-tiers',
  summary: 'List plans',
  description: 'Returns every plan that this installation offers, smallest first.',
  response: z.strictObject({ plans: z.array(Plan).describe('The plans'), count: z.int().describe('Number of plans') }),
  errors: [],
  example: {
    response: {
      plans: [
        {
          id: 'team',
          name: 'Team',
          description: 'For growing teams',
          features: examplePlanFeatures,
          limits: examplePlanLimits,
          created_at: '2026-11-02T09:30:00.000Z',
          updated_at: '2026-11-14T16:05:12.480Z',
        },
      ],
      count: 1,
    },
  },
})

export const getPlanInfo = operation({
  ...plans,
  id: 'getPlanInfo',
  method: 'get',
  path: '/plan-tiers/current',
  summary: 'Get the organization’s plan',
  description: 'Returns the plan with its features and limits, and how much of it is used.',
  query: z.strictObject({
    include: z
      .enum(['basic', 'features', 'usage', 'all'])
      .default('all')
      .describe(
        'What to return: `basic` is the plan alone, `features` adds features and limits, `usage` adds limits and usage, `all` is everything',
      ),
  }),
  response: PlanInfo,
  errors: [],
  example: {
    response: {
      plan: { id: 'team', name: 'Team', description: 'For growing teams' },
      features: examplePlanFeatures,
      limits: examplePlanLimits,
      usage: { seats_used: 8, end_users_used: 1280 },
    },
  },
})

export const getPlanUsage = operation({
  ...plans,
  id: 'getPlanUsage',
  method: 'get',
  path: '/plan-tiers/usage',
  summary: 'Get how much of each limit is used',
  description: 'Returns the number that counts towards each limit of the organization’s plan.',
  response: z
    .strictObject({
      seats: z.int().describe('Members and open invitations'),
      end_users: z.int().describe('End users'),
      sites: z.int().describe('Allowed origins'),
      skills: z.int().describe('Active skills'),
    })
    .meta({ id: 'PlanUsage' }),
  errors: [],
  example: { response: { seats: 1, end_users: 1, sites: 1, skills: 1 } },
})

export const checkFeature = operation({
  ...plans,
  id: 'checkFeature',
  method: 'post',
  path: '/plan-tiers/check-feature',
  summary: 'Check whether the plan allows a feature',
  description:
    'Use this before you offer a feature in your own interface. For `sso`, `scim`, `audit_logs` and `custom_domains`, it checks whether the plan includes the feature; for `seats` and `end_users`, whether one more fits within the limit. A feature that isn’t allowed is still a 200, with `allowed: false`.',
  body: z.strictObject({
    feature: PlanFeatures.keyof().describe('Feature to check'),
    current_usage: z
      .number()
      .min(0)
      .optional()
      .describe(
        'For `seats` and `end_users`: the number to compare with the limit, instead of the organization’s current usage',
      ),
  }),
  response: z.strictObject({
    feature: PlanFeatures.keyof().describe('Feature that was checked'),
    allowed: z.boolean().describe('Whether the plan allows it'),
    reason: z.string().nullable().describe('Why it isn’t allowed; null if it is'),
  }),
  errors: [],
  example: { request: { feature: 'seats' }, response: { feature: 'seats', allowed: true, reason: null } },
})
