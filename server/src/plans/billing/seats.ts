import type { Service } from '../../kernel/foundation/service.ts'
import { countSeats } from '../plans/plans.ts'
import type { Billing, BillingProvider } from '../subscriptions/billing-provider.ts'
import { syncFromBillingProvider } from '../subscriptions/subscriptions.ts'

/**
 * Makes an organization pay for as many seats as it has members and open invitations. A subscription that will end can't
 * be changed.
 */
export async function followMembers(
  parts: Pick<Service, 'config' | 'database'> & Billing,
  billing: BillingProvider,
  organizationId: string,
): Promise<void> {
  const { seats, subscriptions } = await parts.database.asOrg(organizationId, async (sql) => ({
    seats: Math.max(1, await countSeats(sql)),
    subscriptions: await sql<{ id: string; seats: number }>`
      select id, seats from subscriptions
      where seats is not null and status in ('active', 'trialing') and cancel_at is null`,
  }))
  const changing = subscriptions.filter((subscription) => subscription.seats !== seats)
  for (const { id } of changing) await billing.setSeats(id, seats)
  if (changing.length > 0) await syncFromBillingProvider(parts, { organizationId, actor: 'billing provider' })
}
