import { join } from 'node:path'
import { z } from 'zod'
import { readJsonFile } from './json-file.ts'

export const PlanLimits = z
  .strictObject({
    seats: z.int().min(0).describe('Members and open invitations; 0 means unlimited'),
    end_users: z.int().min(0).describe('End users; 0 means unlimited'),
    sites: z.int().min(0).describe('Allowed origins; 0 means unlimited'),
    skills: z.int().min(0).describe('Active skills; 0 means unlimited'),
  })
  .describe('0 means unlimited')
  .meta({ id: 'PlanLimits' })

export const PlanFeatures = z
  .strictObject({
    sso: z.boolean().describe('Single sign-on for the organization’s members'),
    scim: z.boolean().describe('Directories that send users and groups over SCIM'),
    audit_logs: z.boolean().describe('The audit trail'),
    custom_domains: z.boolean().describe('Custom domains'),
    end_users: z.boolean().describe('Whether more end users are available'),
    seats: z.boolean().describe('Whether more seats are available'),
  })
  .meta({ id: 'PlanFeatures' })

const Timestamp = z.iso.datetime({ precision: 3 })

/** A plan in the operator's file. */
const Plan = z.strictObject({
  id: z.string().regex(/^[a-z0-9_-]{1,64}$/, 'must be 1 to 64 characters of a-z, 0-9, _ and -'),
  name: z.string().min(1).max(100),
  description: z.string().max(500),
  product_id: z.string().min(1).max(200).optional(),
  features: PlanFeatures.omit({ seats: true, end_users: true }),
  limits: PlanLimits,
  created_at: Timestamp,
  updated_at: Timestamp,
})
export type Plan = z.infer<typeof Plan>

export const freePlanId = 'free'

export const shippedPlanFile = join(import.meta.dirname, '../../../plans.json')

/** Reads and checks a file of plans. Error messages continue the name of the setting. */
export function readPlanFile(path: string): readonly Plan[] {
  const plans = readJsonFile(path, z.array(Plan))
  for (const name of ['id', 'product_id'] as const) {
    const values = plans.map((plan) => plan[name]).filter((value) => value !== undefined)
    const twice = values.find((value, index) => values.indexOf(value) !== index)
    if (twice) throw new Error(`names a file in which two plans have the ${name} "${twice}"`)
  }
  const free = plans.find(({ id }) => id === freePlanId)
  if (!free)
    throw new Error(`names a file without the plan "${freePlanId}", which organizations without a subscription need`)
  if (free.product_id) throw new Error(`names a file in which the plan "${freePlanId}" has a product_id`)
  return plans
}
