import { z } from 'zod'
import { operation } from '../operation.ts'
import { Id, Page, Timestamp } from '../shapes.ts'

const totals = {
  total_requests: z.int(),
  total_prompt_tokens: z.int(),
  total_completion_tokens: z.int(),
  total_tokens: z.int(),
}

const UsageTotals = z.strictObject(totals).meta({ id: 'UsageTotals' })

const DailyUsage = z
  .strictObject({
    date: z.iso.date().describe('A UTC day'),
    total_requests: z.int(),
    total_tokens: z.int(),
  })
  .meta({ id: 'DailyUsage' })

const SiteUsage = z
  .strictObject({
    site_id: z.string().nullable().describe('Null for what happened on no site'),
    origin: z.string().nullable(),
    ...totals,
  })
  .meta({ id: 'SiteUsage' })

const EndUserUsage = z
  .strictObject({ end_user_id: z.string(), external_id: z.string(), email: z.string(), ...totals })
  .meta({ id: 'EndUserUsage' })

const UsageEvent = z
  .strictObject({
    id: z.string(),
    end_user_id: z.string(),
    site_id: z.string().nullable(),
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    model: z.string(),
    finish_reason: z.string(),
    created_at: Timestamp,
  })
  .meta({ id: 'UsageEvent' })

/** A date, or a moment that stands for the whole UTC day it falls in: usage is summed by day. */
const Day = z
  .union([z.iso.date(), z.iso.datetime({ offset: true, local: true })], 'An ISO 8601 date or date-time is expected')
  .transform((text, context) => {
    const isWithoutZone = /T[\d:.]+$/.test(text)
    const day = new Date(isWithoutZone ? `${text}Z` : text).toISOString().slice(0, 10)
    if (day >= '1970-01-01') return day
    context.addIssue({ code: 'custom', message: 'Dates from 1970-01-01 to 9999-12-31 are known' })
    return z.NEVER
  })

const range = {
  start_date: Day.optional().describe(
    'First UTC day, as a date or as a moment within it; default: 30 days up to the end',
  ),
  end_date: Day.optional().describe('Last UTC day, as a date or as a moment within it, inclusive; default: today'),
}
const site = { site_id: z.string().optional().describe('Only what happened on this site') }

const EndUserId = z.strictObject({ end_user_id: Id.shape.id })

const usage = { tag: 'Usage', method: 'get', access: 'org' } as const

export const getDailyUsage = operation({
  ...usage,
  id: 'getDailyUsage',
  path: '/usage/daily',
  summary: 'Requests and tokens per UTC day; a day without traffic is a zero',
  description: 'At most ten years at once.',
  query: z.strictObject({ ...site, ...range }),
  response: z.array(DailyUsage),
  errors: ['RESOURCE_NOT_FOUND'],
})

export const getUsageStats = operation({
  ...usage,
  id: 'getUsageStats',
  path: '/usage/stats',
  summary: 'The organization’s totals over a range of UTC days',
  query: z.strictObject({ ...site, ...range }),
  response: UsageTotals,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const listSiteUsage = operation({
  ...usage,
  id: 'listSiteUsage',
  path: '/usage/sites',
  summary: 'Totals per site over a range of UTC days, those with most tokens first',
  query: Page.extend(range),
  response: z.strictObject({ sites: z.array(SiteUsage), total: z.int() }),
  errors: [],
})

export const listEndUserUsage = operation({
  ...usage,
  id: 'listEndUserUsage',
  path: '/usage/end-users',
  summary: 'Totals per end user over a range of UTC days, those with most tokens first',
  description: 'What anonymous visitors and erased end users spent is in the organization’s totals only.',
  query: Page.extend(range),
  response: z.strictObject({ users: z.array(EndUserUsage), total: z.int() }),
  errors: [],
})

export const getEndUserStats = operation({
  ...usage,
  id: 'getEndUserUsageStats',
  path: '/usage/end-users/{end_user_id}/stats',
  resource: 'end_user',
  summary: 'An end user’s totals since they first came',
  params: EndUserId,
  response: UsageTotals,
  errors: ['RESOURCE_NOT_FOUND'],
})

export const listEndUserHistory = operation({
  ...usage,
  id: 'listEndUserUsageHistory',
  path: '/usage/end-users/{end_user_id}/history',
  resource: 'end_user',
  summary: 'What an end user spent, answer by answer, newest first',
  params: EndUserId,
  query: Page,
  response: z.strictObject({ events: z.array(UsageEvent), total: z.int() }),
  errors: ['RESOURCE_NOT_FOUND'],
})
