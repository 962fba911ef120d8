import { z } from 'zod'
import { cursorAt, order } from '../../kernel/foundation/cursors.ts'
import { operation } from '../../kernel/foundation/operation.ts'
import { Id, Page, Timestamp } from '../../kernel/foundation/shapes.ts'

const TotalCost = z.int().describe('Cost in millionths of a US dollar. Requests to models without a price count as 0.')

const totals = {
  total_requests: z.int().describe('Number of requests to a model'),
  total_prompt_tokens: z.int().describe('Tokens sent to the model'),
  total_completion_tokens: z.int().describe('Tokens that the model generated'),
  total_tokens: z.int().describe('Prompt and completion tokens together'),
  total_cost_micro_usd: TotalCost,
}

const UsageTotals = z.strictObject(totals).meta({ id: 'UsageTotals' })

const DailyUsage = z
  .strictObject({
    date: z.iso.date().describe('UTC day'),
    total_requests: z.int().describe('Number of requests to a model on this day'),
    total_tokens: z.int().describe('Prompt and completion tokens on this day'),
    total_cost_micro_usd: TotalCost,
  })
  .meta({ id: 'DailyUsage' })

const SiteUsage = z
  .strictObject({
    site_id: z.string().nullable().describe('ID of the site; null for usage that doesn’t belong to a site'),
    origin: z.string().nullable().describe('Origin of the site; null for usage that doesn’t belong to a site'),
    ...totals,
  })
  .meta({ id: 'SiteUsage' })

const EndUserUsage = z
  .strictObject({
    end_user_id: z.string().describe('ID of the end user'),
    external_id: z.string().describe('The user’s ID at your identity provider'),
    email: z.string().describe('Email address; empty if the identity provider didn’t send one'),
    is_preview: z
      .boolean()
      .describe('Whether the end user is a member of your organization who tries the agent in the dashboard'),
    ...totals,
  })
  .meta({ id: 'EndUserUsage' })

const ModelUsage = z
  .strictObject({ model: z.string().describe('Name of the model'), ...totals })
  .meta({ id: 'ModelUsage' })

const UsageEvent = z
  .strictObject({
    id: z.string().describe('ID of the usage event'),
    end_user_id: z.string().describe('ID of the end user'),
    site_id: z.string().nullable().describe('ID of the site; null for usage that doesn’t belong to a site'),
    prompt_tokens: z.int().describe('Tokens sent to the model'),
    completion_tokens: z.int().describe('Tokens that the model generated'),
    total_tokens: z.int().describe('Prompt and completion tokens together'),
    is_estimated: z.boolean().describe('Whether the tokens were estimated, because the provider didn’t report them'),
    cost_micro_usd: z.int().nullable().describe('Cost in millionths of a US dollar; null if the model had no price'),
    model: z.string().describe('Name of the model'),
    finish_reason: z.string().describe('Why the model stopped, as its provider reports it, such as `stop` or `length`'),
    created_at: Timestamp.describe('When the response was complete'),
  })
  .meta({ id: 'UsageEvent' })

/** A date, or a time that selects the UTC day it falls on, because usage is summed per day. */
const Day = z
  .union([z.iso.date(), z.iso.datetime({ offset: true, local: true })], 'Must be an ISO 8601 date or date-time')
  .transform((text, context) => {
    const isWithoutZone = /T[\d:.]+$/.test(text)
    const day = new Date(isWithoutZone ? `${text}Z` : text).toISOString().slice(0, 10)
    if (day >= '1970-01-01') return day
    context.addIssue({ code: 'custom', message: 'Must be between 1970-01-01 and 9999-12-31' })
    return z.NEVER
  })

const range = {
  start_date: Day.optional().describe(
    'First UTC day, as a date or a time on that day. Default: 29 days before `end_date`, for a range of 30 days.',
  ),
  end_date: Day.optional().describe('Last UTC day, inclusive, as a date or a time on that day. Default: today.'),
}
const site = { site_id: z.string().optional().describe('Return only usage on this site') }

const EndUserId = z.strictObject({ end_user_id: Id.shape.id.describe('ID of the end user') })

const usage = { tag: 'Usage', method: 'get', access: 'org' } as const

export const getDailyUsage = operation({
  ...usage,
  id: 'getDailyUsage',
  path: '/usage/daily',
  summary: 'Get usage per day',
  description:
    'Returns one entry for each UTC day of the range, oldest first, ready to chart. Days without traffic are included with zeros. A range can be at most ten years long. The response is a 404 if `site_id` isn’t one of the organization’s sites.',
  query: z.strictObject({ ...site, ...range }),
  response: z.array(DailyUsage),
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: [{ date: '2026-11-14', total_requests: 12, total_tokens: 18_250, total_cost_micro_usd: 9900 }] },
})

const exampleUsageTotals = {
  total_requests: 12,
  total_prompt_tokens: 15_200,
  total_completion_tokens: 3050,
  total_tokens: 18_250,
  total_cost_micro_usd: 9900,
} as const

export const getUsageStats = operation({
  ...usage,
  id: 'getUsageStats',
  path: '/usage/stats',
  summary: 'Get the organization’s usage totals',
  description:
    'Returns totals for a range of UTC days, for the whole organization or for one site. The response is a 404 if `site_id` isn’t one of the organization’s sites.',
  query: z.strictObject({ ...site, ...range }),
  response: UsageTotals,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleUsageTotals },
})

export const listSiteUsage = operation({
  ...usage,
  id: 'listSiteUsage',
  path: '/usage/sites',
  summary: 'List usage per site',
  description: 'Returns totals per site for a range of UTC days, sites with the most tokens first.',
  query: Page.extend({ cursor: cursorAt(order.number, order.id), ...range }),
  response: z.strictObject({
    sites: z.array(SiteUsage).describe('Totals per site'),
    total: z.int().describe('Number of sites with usage in the range'),
  }),
  pages: true,
  errors: [],
  example: {
    response: {
      sites: [
        { ...exampleUsageTotals, site_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4', origin: 'https://app.example.com' },
      ],
      total: 1,
    },
  },
})

export const listEndUserUsage = operation({
  ...usage,
  id: 'listEndUserUsage',
  path: '/usage/end-users',
  summary: 'List usage per end user',
  description:
    'Returns totals per end user for a range of UTC days, end users with the most tokens first. Usage by anonymous visitors and erased end users counts only toward the organization’s totals. In an organization with 2000 end users or more, the last 7, 30, 90 and 365 days and the current month can be up to ten minutes old.',
  query: Page.extend({ cursor: cursorAt(order.number, order.id), ...range }),
  response: z.strictObject({
    users: z.array(EndUserUsage).describe('Totals per end user'),
    total: z.int().describe('Number of end users with usage in the range'),
  }),
  pages: true,
  errors: [],
  example: {
    response: {
      users: [
        {
          ...exampleUsageTotals,
          end_user_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5',
          external_id: '00u1a2b3c4EXAMPLE',
          email: 'ada@example.com',
          is_preview: true,
        },
      ],
      total: 1,
    },
  },
})

export const listModelUsage = operation({
  ...usage,
  id: 'listModelUsage',
  path: '/usage/models',
  summary: 'List usage per model',
  description: 'Returns totals per model for a range of UTC days, models with the most tokens first.',
  query: Page.extend({ cursor: cursorAt(order.number, order.text), ...range }),
  response: z.strictObject({
    models: z.array(ModelUsage).describe('Totals per model'),
    total: z.int().describe('Number of models with usage in the range'),
  }),
  pages: true,
  errors: [],
  example: { response: { models: [{ ...exampleUsageTotals, model: 'gpt-5-mini' }], total: 1 } },
})

export const getEndUserStats = operation({
  ...usage,
  id: 'getEndUserUsageStats',
  path: '/usage/end-users/{end_user_id}/stats',
  resource: 'end_user',
  summary: 'Get an end user’s usage totals',
  description:
    'Returns the end user’s totals since their first visit. The response is a 404 if the end user doesn’t exist or has been erased.',
  params: EndUserId,
  response: UsageTotals,
  errors: ['RESOURCE_NOT_FOUND'],
  example: { response: exampleUsageTotals },
})

export const listEndUserHistory = operation({
  ...usage,
  id: 'listEndUserUsageHistory',
  path: '/usage/end-users/{end_user_id}/history',
  resource: 'end_user',
  summary: 'List an end user’s usage',
  description:
    'Returns one entry for each model response, newest first. The response is a 404 if the end user doesn’t exist or has been erased.',
  params: EndUserId,
  query: Page.extend({ cursor: cursorAt(order.time, order.id) }),
  response: z.strictObject({
    events: z.array(UsageEvent).describe('Usage events on this page of the list'),
    total: z.int().describe('Total number of usage events of the end user'),
  }),
  pages: true,
  errors: ['RESOURCE_NOT_FOUND'],
  example: {
    response: {
      events: [
        {
          id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
          end_user_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5',
          site_id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4',
          prompt_tokens: 1520,
          completion_tokens: 310,
          total_tokens: 1830,
          is_estimated: false,
          cost_micro_usd: 1000,
          model: 'gpt-5-mini',
          finish_reason: 'stop',
          created_at: '2026-11-02T09:30:00.000Z',
        },
      ],
      total: 1,
    },
  },
})
