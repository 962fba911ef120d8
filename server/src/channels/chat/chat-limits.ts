import type { ClientMessage } from '@inlay/protocol'
import type { Speaker } from '../../agent/runs/runs.ts'
import type { AgentSettingsReader } from '../../agent/settings/agent-settings.ts'
import type { Clock } from '../../kernel/lib/clock.ts'
import { failure } from '../../kernel/lib/errors.ts'
import { type Bucket, SharedBuckets } from '../../kernel/lib/shares/shared-buckets.ts'
import { TokenBuckets } from '../../kernel/lib/shares/token-buckets.ts'
import { networksOf } from '../../kernel/net/client-address.ts'

type ChatType = Extract<ClientMessage, { type: `chat/${string}` }>['type']

/** What a request costs, in proportion to the work that it makes. All others cost 1. */
const costs: Partial<Record<ChatType, number>> = {
  'chat/messages': 4,
  'chat/send': 4,
  'chat/adopt': 2,
  'chat/resume': 2,
  'chat/threads': 2,
}

/** A long conversation costs one more for each of these parts that is read. */
const bytesPerPart = 128 * 1024

/**
 * To open the panel with a conversation costs 9. An address may be shared by an office. What a key has is shared by the
 * addresses that ask: when it runs short, those that have asked for most are refused first.
 */
export const chatRates = {
  user: { perSecond: 20, atOnce: 400 },
  visitor: { perSecond: 10, atOnce: 200 },
  address: { perSecond: 50, atOnce: 1_000 },
  key: { perSecond: 400, atOnce: 8_000 },
}

const knownSpeakers = 50_000
const knownKeys = 10_000

export interface ChatLimits {
  /** Throws before a request costs anything but memory. */
  admit(speaker: Speaker, type: ChatType): Promise<void>
  /** Charges for what a response has more than a short one. Later requests wait for it. */
  charge(speaker: Speaker, bytes: number): void
}

/** Limits requests to the agent on this node, because anyone can use a publishable key. */
export function createChatLimits({
  agentSettings,
  clock,
}: {
  agentSettings: AgentSettingsReader
  clock: Clock
}): ChatLimits {
  const users = new TokenBuckets(chatRates.user, knownSpeakers)
  const visitors = new TokenBuckets(chatRates.visitor, knownSpeakers)
  const addresses = new TokenBuckets(chatRates.address, knownSpeakers)
  const keys = new SharedBuckets(chatRates.key, { buckets: knownKeys, members: knownSpeakers })

  function bucketsOf({ holder, visitor, address }: Speaker): Bucket[] {
    const { organization_id, publishable_key_id, end_user } = holder
    if (end_user) return [users.of(end_user.id)]
    return [
      visitors.of(`${organization_id} ${visitor ?? address}`),
      addresses.of(`${organization_id} ${address}`),
      keys.of(publishable_key_id, networksOf(address)),
    ]
  }

  /** All buckets must have enough before anything is taken, so that a visitor who is refused costs others nothing. */
  function spend(buckets: Bucket[], cost: number): void {
    const now = clock()
    const wait = Math.max(...buckets.map((bucket) => bucket.wait(cost, now)))
    if (wait > 0) throw tooManyRequests(wait)
    for (const bucket of buckets) bucket.spend(cost, now)
  }

  return {
    async admit(speaker, type) {
      const { organization_id, end_user } = speaker.holder
      spend(bucketsOf(speaker), costs[type] ?? 1)
      // Says why there is nothing to talk to.
      if (!end_user && type !== 'chat/about') await requireVisitorsAllowed(agentSettings, organization_id)
    },
    charge(speaker, bytes) {
      const cost = Math.floor(bytes / bytesPerPart)
      if (cost > 0) for (const bucket of bucketsOf(speaker)) bucket.spend(cost, clock())
    },
  }
}

/** Throws if an organization doesn't let anonymous visitors talk to its agent. */
async function requireVisitorsAllowed(agentSettings: AgentSettingsReader, organizationId: string): Promise<void> {
  const { anonymous } = await agentSettings.of(organizationId)
  if (!anonymous.is_enabled) throw failure(403, 'SIGN_IN_NEEDED', 'Sign in to talk to the assistant.')
}

const tooManyRequests = (waitMs: number) =>
  failure(429, 'TOO_MANY_REQUESTS', "You're sending requests too quickly. Try again in a moment.", {
    headers: { 'retry-after': String(Math.ceil(waitMs / 1000)) },
  })
