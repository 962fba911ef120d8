import { LRUCache } from 'lru-cache'
import type { Service } from '../../kernel/foundation/service.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { FreshCache } from '../../kernel/stores/fresh-cache.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { type IdentityProviderConfig, readIdentityProvider } from '../identity-provider/identity-provider.ts'
import { isWellFormedKey } from './key-format.ts'

/** A key that isn't revoked, with the settings of its organization that a ticket exchange needs. */
export interface LiveKey {
  id: string
  organization_id: string
  allowed_origins: readonly string[]
  provider: IdentityProviderConfig
  /** Canonical origins that passed the checks, by the text that was sent. */
  origins: LRUCache<string, string>
  /** Ids of sites by canonical origin; empty if the origin has no site. */
  siteIds: LRUCache<string, string>
}

/** Where the key may be used: its own origins, or else the organization's. An empty list means everywhere. */
export const allowedOrigins = ({
  allowed_origins,
  provider,
}: Pick<LiveKey, 'allowed_origins' | 'provider'>): readonly string[] =>
  allowed_origins.length > 0 ? allowed_origins : provider.allowed_domains

export interface KeyLookup {
  /** Returns a cached key synchronously, because almost every exchange is for a key that was used before. */
  known(key: string): LiveKey | undefined
  /** Returns undefined for a malformed, an unknown or a revoked key. */
  find(key: string): Promise<LiveKey | undefined>
}

const cachedKeys = 10_000

export function createKeyLookup({ database, changes, clock }: Service): KeyLookup {
  const known = new FreshCache<LiveKey>({
    changes,
    clock,
    limit: cachedKeys,
    topicsOf: ({ id, organization_id }) => [topics.key(id), topics.identityProvider(organization_id)],
  })

  async function readKey(text: string): Promise<LiveKey | undefined> {
    const hash = fingerprint(text)
    const [row] = await database.asKeyHolder(
      hash,
      (sql) => sql<Pick<LiveKey, 'id' | 'organization_id' | 'allowed_origins'>>`
        select id, organization_id, allowed_origins from publishable_keys where key_hash = ${hash} and revoked_at is null`,
    )
    if (!row) return undefined
    const provider = await database.asOrg(row.organization_id, readIdentityProvider)
    return {
      ...row,
      provider,
      origins: new LRUCache<string, string>({ max: 100 }),
      siteIds: new LRUCache<string, string>({ max: 100 }),
    }
  }

  return {
    known: (text) => known.get(text),
    find: async (text) => (isWellFormedKey('pk', text) ? known.load(text, () => readKey(text)) : undefined),
  }
}
