import type { Service } from '../../kernel/foundation/service.ts'
import type { JobKind } from '../../kernel/jobs/jobs.ts'
import { type Billing, BillingFailed } from '../subscriptions/billing-provider.ts'
import { billingSeats, billingSync, readAgainSeconds, syncFromBillingProvider } from '../subscriptions/subscriptions.ts'
import { billingUsage } from '../usage/record.ts'
import { followMembers } from './seats.ts'
import { reportUsage } from './usage-reports.ts'

/** A provider's API can be slow, and usage that it refuses is sent in many requests. */
const longestMs = 5 * 60_000
const longestPauseSeconds = 30 * 60

const common: Pick<JobKind, 'atOnce' | 'longestMs' | 'judge'> = {
  atOnce: 2,
  longestMs,
  judge: (error) =>
    error instanceof BillingFailed
      ? { isAway: !error.isRefusal, retryAfterSeconds: Math.min(error.retryAfterSeconds ?? 0, longestPauseSeconds) }
      : {},
}

/** What is done at the billing provider. Every job can be repeated. */
export const workingAtBillingProvider = (parts: Pick<Service, 'config' | 'database' | 'log'> & Billing): JobKind[] => [
  {
    ...common,
    name: billingSync,
    async run({ organizationId }) {
      // Kept for the case that the operator configures the provider again.
      if (!parts.billing) return { again: { inSeconds: readAgainSeconds } }
      await syncFromBillingProvider(parts, { organizationId, actor: 'billing provider' })
      return 'done'
    },
  },
  {
    ...common,
    name: billingSeats,
    async run({ organizationId }) {
      if (parts.billing) await followMembers(parts, parts.billing, organizationId)
      return 'done'
    },
  },
  { ...common, name: billingUsage, run: (job) => reportUsage(parts, job) },
]
