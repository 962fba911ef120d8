import { z } from 'zod'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Timestamp } from '../../kernel/foundation/shapes.ts'

const limit = (text: string) => z.int().min(0).max(Number.MAX_SAFE_INTEGER).nullable().describe(text)

const limits = {
  day_tokens: limit('Prompt and completion tokens per UTC day; null for no limit'),
  month_tokens: limit('Prompt and completion tokens per UTC month; null for no limit'),
  day_cost_micro_usd: limit('Cost per UTC day, in millionths of a US dollar; null for no limit'),
  month_cost_micro_usd: limit('Cost per UTC month, in millionths of a US dollar; null for no limit'),
}
const Budget = z.strictObject(limits).meta({ id: 'Budget' })

const ofEndUser = 'null for the limit in `end_user_default`'
const ownLimits = {
  day_tokens: limit(`Prompt and completion tokens per UTC day; ${ofEndUser}`),
  month_tokens: limit(`Prompt and completion tokens per UTC month; ${ofEndUser}`),
  day_cost_micro_usd: limit(`Cost per UTC day, in millionths of a US dollar; ${ofEndUser}`),
  month_cost_micro_usd: limit(`Cost per UTC month, in millionths of a US dollar; ${ofEndUser}`),
}

const BudgetPeriod = z
  .strictObject({
    starts_on: z.iso.date().describe('First UTC day of the period'),
    resets_at: Timestamp.describe('When the next period begins'),
    used_tokens: z.int().describe('Tokens used in the period'),
    reserved_tokens: z.int().describe('The most that running model calls can still use'),
    used_cost_micro_usd: z
      .int()
      .describe('Cost in the period, in millionths of a US dollar. Calls to models without a price count as 0.'),
    reserved_cost_micro_usd: z.int().describe('The most that running model calls can still cost'),
    is_nearly_reached: z.boolean().describe('Whether at least 80 % of a limit are used'),
  })
  .meta({ id: 'BudgetPeriod' })

const BudgetState = z
  .strictObject({
    day: BudgetPeriod.describe('The current UTC day'),
    month: BudgetPeriod.describe('The current UTC month'),
  })
  .meta({ id: 'BudgetState' })

const shares = {
  day_tokens_per_address: limit('Tokens per UTC day from one network address; null for no limit'),
  day_tokens_per_visitor: limit('Tokens per UTC day of one visitor; null for no limit'),
  day_tokens_per_key: limit('Tokens per UTC day with one publishable key; null for no limit'),
}
const AnonymousShares = z.strictObject(shares).meta({ id: 'AnonymousShares' })
const sharesText =
  'How much of it one of them can use, so that a stranger can’t use up the budget of all others. An IPv6 /64 network counts as one address.'

const Budgets = z
  .strictObject({
    organization: Budget.describe('Limits of the whole organization, including end users and anonymous visitors'),
    end_user_default: Budget.describe('Limits of each end user who has none of their own'),
    anonymous: Budget.describe('Limits of all anonymous visitors together: 500 000 tokens a day until you set others'),
    anonymous_shares: AnonymousShares.describe(
      `${sharesText} 200 000 tokens a day per address and 100 000 per visitor until you set others.`,
    ),
    state: z
      .strictObject({
        organization: BudgetState.describe('Usage of the whole organization'),
        anonymous: BudgetState.describe('Usage of all anonymous visitors'),
      })
      .describe('What is used and reserved now'),
  })
  .meta({ id: 'Budgets' })

const EndUserBudget = z
  .strictObject({
    ...ownLimits,
    effective: Budget.describe('The limits that apply: the end user’s own, or those in `end_user_default`'),
    state: BudgetState.describe('What the end user has used and reserved now'),
  })
  .meta({ id: 'EndUserBudget' })

const budgets = { tag: 'Budgets', access: 'admin' } as const
const ofOneEndUser = { ...budgets, path: '/end-users/{id}/budget', resource: 'end_user', params: Id } as const

const exampleAnonymousShares = {
  day_tokens_per_address: 200_000,
  day_tokens_per_visitor: 100_000,
  day_tokens_per_key: null,
} as const

const exampleDefaultBudget = {
  day_tokens: 200_000,
  month_tokens: null,
  day_cost_micro_usd: null,
  month_cost_micro_usd: null,
} as const

const exampleAnonymousBudget = { ...exampleDefaultBudget, day_tokens: 500_000 } as const

const exampleOrganizationBudget = {
  ...exampleDefaultBudget,
  day_tokens: null,
  month_cost_micro_usd: 50_000_000,
} as const

const exampleDay = {
  starts_on: '2026-11-14',
  resets_at: '2026-11-15T00:00:00.000Z',
  used_tokens: 18_250,
  reserved_tokens: 0,
  used_cost_micro_usd: 9900,
  reserved_cost_micro_usd: 0,
  is_nearly_reached: false,
} as const

const exampleMonth = {
  ...exampleDay,
  starts_on: '2026-11-01',
  resets_at: '2026-12-01T00:00:00.000Z',
} as const

const exampleBudgets = {
  organization: exampleOrganizationBudget,
  end_user_default: exampleDefaultBudget,
  anonymous: exampleAnonymousBudget,
  anonymous_shares: exampleAnonymousShares,
  state: {
    organization: { day: exampleDay, month: exampleMonth },
    anonymous: { day: exampleDay, month: exampleMonth },
  },
} as const

export const getBudgets = operation({
  ...budgets,
  id: 'getBudgets',
  method: 'get',
  path: '/budgets',
  summary: 'Get the organization’s budgets',
  description:
    'Budgets limit what the agent uses per UTC day and month, in tokens and in money. Before each model call, the most that it can use is reserved in the budgets of the organization and of the end user or anonymous visitors, including the shares of the visitor. If that exceeds a limit, the call isn’t made, and the user is told when the budget resets.',
  response: Budgets,
  errors: [],
  example: { response: exampleBudgets },
})

export const updateBudgets = operation({
  ...budgets,
  id: 'updateBudgets',
  method: 'patch',
  path: '/budgets',
  summary: 'Change the organization’s budgets',
  description:
    'Limits that you leave out stay as they are; null removes a limit. Changes apply from the next model call on, and count what was already used in the period. With a limit in money, calls to models without a price are refused.',
  body: z.strictObject({
    organization: Budget.partial().optional().describe('Limits of the whole organization'),
    end_user_default: Budget.partial().optional().describe('Limits of each end user who has none of their own'),
    anonymous: Budget.partial().optional().describe('Limits of all anonymous visitors together'),
    anonymous_shares: AnonymousShares.partial().optional().describe(sharesText),
  }),
  response: Budgets,
  errors: [],
  example: {
    request: { organization: { month_cost_micro_usd: 50_000_000 }, anonymous: { day_tokens: 500_000 } },
    response: exampleBudgets,
  },
})

const exampleOwnBudget = { ...exampleDefaultBudget, day_tokens: 1_000_000 } as const

const exampleEndUserBudget = {
  ...exampleOwnBudget,
  effective: exampleOwnBudget,
  state: { day: exampleDay, month: exampleMonth },
} as const

export const getEndUserBudget = operation({
  ...ofOneEndUser,
  id: 'getEndUserBudget',
  method: 'get',
  summary: 'Get an end user’s budget',
  description:
    'Returns the end user’s own limits, the limits that apply, and what the end user has used. Returns a 404 if the end user doesn’t exist or was erased.',
  response: EndUserBudget,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleEndUserBudget },
})

export const updateEndUserBudget = operation({
  ...ofOneEndUser,
  id: 'updateEndUserBudget',
  method: 'patch',
  summary: 'Change an end user’s budget',
  description:
    'Limits that you leave out stay as they are; null returns to the limit in `end_user_default`. Returns a 404 if the end user doesn’t exist or was erased.',
  body: z.strictObject(ownLimits).partial(),
  response: EndUserBudget,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { request: { day_tokens: 1_000_000 }, response: exampleEndUserBudget },
})
