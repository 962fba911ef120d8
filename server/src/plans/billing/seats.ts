import type { Service } from '../../kernel/foundation/service.ts'
import type { Billing, BillingProvider } from '../subscriptions/billing-provider.ts'
import { findWrongSeats, syncFromBillingProvider } from '../subscriptions/subscriptions.ts'

/**
 * Makes an organization pay for as many seats as it has members and open invitations. A trigger on both, request_seats,
 * requests it.
 */
export async function followMembers(
  parts: Pick<Service, 'config' | 'database'> & Billing,
  billing: BillingProvider,
  organizationId: string,
): Promise<void> {
  const { seats, subscriptionIds } = await parts.database.asOrg(organizationId, findWrongSeats)
  for (const id of subscriptionIds) await billing.setSeats(id, seats)
  if (subscriptionIds.length > 0) await syncFromBillingProvider(parts, { organizationId, actor: 'billing provider' })
}
