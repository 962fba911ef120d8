import {
  type IdentityProviderConfig,
  identityProviderChanged,
  readConfig,
} from '../identity-provider/identity-provider.ts'
import { BoundedMap } from '../lib/bounded-map.ts'
import { fingerprint } from '../lib/secrets.ts'
import type { Foundation } from '../service.ts'
import { isWellFormedKey } from './key-format.ts'
import { publishableKeyChanged } from './keys.ts'

/** A live key and what its organization allows: all that a ticket exchange has to know. */
export interface LiveKey {
  id: string
  organization_id: string
  allowed_origins: readonly string[]
  provider: IdentityProviderConfig
  /** Origins that passed the checks, by their text, and sites that the key was used on, by origin. */
  origins: BoundedMap<string, string>
  siteIds: BoundedMap<string, string>
}

/** Where the key may be used; a key without origins of its own goes by those of the organization. None: everywhere. */
export const allowedOrigins = ({ allowed_origins, provider }: LiveKey): readonly string[] =>
  allowed_origins.length > 0 ? allowed_origins : provider.allowed_domains

export interface KeyLookup {
  /** Without asking anybody; almost every exchange is for a key that was used before. */
  known(key: string): LiveKey | undefined
  /** Undefined for a malformed, an unknown and a revoked key alike. */
  find(key: string): Promise<LiveKey | undefined>
}

/** A node that missed a message on the bus asks again after this long. */
const rememberMs = 30_000
const rememberedKeys = 10_000

export async function createKeyLookup({ database, bus, clock }: Foundation): Promise<KeyLookup> {
  const known = new BoundedMap<string, { key: LiveKey; checkedAt: number }>(rememberedKeys)
  await bus.subscribe<{ id: string }>(publishableKeyChanged, ({ id }) => known.deleteWhere(({ key }) => key.id === id))
  await bus.subscribe<{ organization_id: string }>(identityProviderChanged, ({ organization_id }) =>
    known.deleteWhere(({ key }) => key.organization_id === organization_id),
  )

  const recall = (text: string): LiveKey | undefined => {
    const remembered = known.get(text)
    return remembered && clock() - remembered.checkedAt < rememberMs ? remembered.key : undefined
  }

  return {
    known: recall,
    async find(text) {
      const remembered = recall(text)
      if (remembered) return remembered
      if (!isWellFormedKey(text)) return undefined
      const hash = fingerprint(text)
      const checkedAt = clock()
      const [row] = await database.asKeyHolder(
        hash,
        (sql) => sql<Pick<LiveKey, 'id' | 'organization_id' | 'allowed_origins'>>`
          select id, organization_id, allowed_origins from publishable_keys where key_hash = ${hash} and revoked_at is null`,
      )
      if (!row) return undefined
      const provider = await database.asOrg(row.organization_id, readConfig)
      const key = {
        ...row,
        provider,
        origins: new BoundedMap<string, string>(100),
        siteIds: new BoundedMap<string, string>(100),
      }
      known.set(text, { key, checkedAt })
      return key
    },
  }
}
