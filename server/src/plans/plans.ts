import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { paymentRequired } from '../errors.ts'
import type { Sql } from '../stores/database.ts'

const Plan = z.strictObject({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  features: z.strictObject({
    sso: z.boolean(),
    scim: z.boolean(),
    audit_logs: z.boolean(),
    custom_domains: z.boolean(),
  }),
  /** 0 means unlimited. */
  limits: z.strictObject({
    seats: z.int().min(0),
    end_users: z.int().min(0),
    sites: z.int().min(0),
    skills: z.int().min(0),
  }),
})
type Plan = z.infer<typeof Plan>

const plans = new Map(
  z
    .array(Plan)
    .parse(JSON.parse(readFileSync(join(import.meta.dirname, '../../plans.json'), 'utf8')))
    .map((plan) => [plan.id, plan]),
)

export const planIds = (): string[] => [...plans.keys()]

/** An organization whose plan was taken out of the file keeps the smallest one. */
const planOf = (id: string): Plan => plans.get(id) ?? (plans.values().next().value as Plan)

/**
 * Call it after the insert that takes the seat, in its transaction. The lock makes newcomers queue, so that of fifty at
 * once exactly as many get in as there are seats.
 */
export async function requireSeat(sql: Sql): Promise<void> {
  const [organization] = await sql<{ plan_id: string }>`
    select plan_id from organizations where id = current_organization() for no key update`
  const { limits } = planOf(organization?.plan_id ?? '')
  const [taken] = await sql<{ seats: number }>`
    select (select count(*) from members) + (select count(*) from invitations) as seats`
  if (limits.seats > 0 && (taken?.seats ?? 0) > limits.seats) {
    throw paymentRequired(`All ${limits.seats} seats of the plan are taken`)
  }
}
