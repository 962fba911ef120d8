import { LRUCache } from 'lru-cache'
import type { Service } from '../foundation/service.ts'
import { type IdentityProviderConfig, readProviderConfig } from '../identity-provider/identity-provider.ts'
import { fingerprint } from '../lib/secrets.ts'
import { topics } from '../stores/changes.ts'
import { FreshCache } from '../stores/fresh-cache.ts'
import { isWellFormedKey } from './key-format.ts'

/** A live key and what its organization allows: all that a ticket exchange has to know. */
export interface LiveKey {
  id: string
  organization_id: string
  allowed_origins: readonly string[]
  provider: IdentityProviderConfig
  /** Origins that passed the checks, by their text, and the sites that they are on, by origin; an empty id is no site. */
  origins: LRUCache<string, string>
  siteIds: LRUCache<string, string>
}

/** Where the key may be used; a key without origins of its own goes by those of the organization. None: everywhere. */
export const allowedOrigins = ({
  allowed_origins,
  provider,
}: Pick<LiveKey, 'allowed_origins' | 'provider'>): readonly string[] =>
  allowed_origins.length > 0 ? allowed_origins : provider.allowed_domains

export interface KeyLookup {
  /** Without asking anybody; almost every exchange is for a key that was used before. */
  known(key: string): LiveKey | undefined
  /** Undefined for a malformed, an unknown and a revoked key alike. */
  find(key: string): Promise<LiveKey | undefined>
}

const cachedKeys = 10_000

export function createKeyLookup({ database, changes, clock }: Service): KeyLookup {
  const known = new FreshCache<LiveKey>({
    changes,
    clock,
    limit: cachedKeys,
    topicsOf: ({ id, organization_id }) => [topics.key(id), topics.provider(organization_id)],
  })

  async function readKey(text: string): Promise<LiveKey | undefined> {
    const hash = fingerprint(text)
    const [row] = await database.asKeyHolder(
      hash,
      (sql) => sql<Pick<LiveKey, 'id' | 'organization_id' | 'allowed_origins'>>`
        select id, organization_id, allowed_origins from publishable_keys where key_hash = ${hash} and revoked_at is null`,
    )
    if (!row) return undefined
    const provider = await database.asOrg(row.organization_id, readProviderConfig)
    return {
      ...row,
      provider,
      origins: new LRUCache<string, string>({ max: 100 }),
      siteIds: new LRUCache<string, string>({ max: 100 }),
    }
  }

  return {
    known: (text) => known.get(text),
    find: async (text) => (isWellFormedKey(text) ? known.load(text, () => readKey(text)) : undefined),
  }
}
