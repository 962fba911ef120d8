import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import type { JWK } from 'jose'
import type { Service } from '../../kernel/foundation/service.ts'
import { isUnavailable } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'

/**
 * The built-in issuer's Ed25519 keys, shared by all nodes through the key-value store. A new key is published for a
 * while before it signs, and an old one stays published until nothing it signed can still be valid, so a rotation
 * fails no request.
 */
export interface SigningKeys {
  current(): Promise<{ kid: string; privateKey: KeyObject }>
  find(kid: string): Promise<KeyObject | undefined>
  /** RFC 7517, for `/oauth/jwks`. */
  published(): Promise<{ keys: JWK[] }>
}

interface StoredKey {
  kid: string
  private_jwk: JWK
  created_at: number
}

interface LoadedKey {
  kid: string
  createdAt: number
  privateKey: KeyObject
  publicKey: KeyObject
}

const day = 24 * 60 * 60_000
export const rotateAfterMs = 30 * day
const publishBeforeSigningMs = 10 * 60_000
const keepMs = 62 * day
const reloadAfterMs = 60_000
const keepWhileAwayMs = 60 * 60_000
/** Unknown key ids cause at most one read of the store in this time. */
const unknownKidPauseMs = 1_000
const storeKey = 'oauth:signing-keys'

export function createSigningKeys({ kv, clock }: Pick<Service, 'kv' | 'clock'>): SigningKeys {
  let loaded: { keys: LoadedKey[]; at: number } | undefined

  async function reload(): Promise<LoadedKey[]> {
    const stored = (await kv.get<StoredKey[]>(storeKey)) ?? []
    const keys = isDue(stored) ? await addKey() : stored
    loaded = { keys: keys.map(load), at: clock() }
    return loaded.keys
  }

  const isDue = (stored: StoredKey[]) => clock() - (stored.at(-1)?.created_at ?? 0) > rotateAfterMs

  async function addKey(): Promise<StoredKey[]> {
    // One node creates the key; the others continue with the existing keys, or wait for the very first one.
    const isOurs = await kv.setIfAbsent(`${storeKey}:making`, true, 10)
    const stored = (await kv.get<StoredKey[]>(storeKey)) ?? []
    if (!isOurs) return stored.length > 0 ? stored : addKey()
    // Another node may have finished just before.
    const keys = isDue(stored) ? [...stored.filter((key) => clock() - key.created_at < keepMs), makeKey()] : stored
    if (keys !== stored) await kv.set(storeKey, keys)
    await kv.delete(`${storeKey}:making`)
    return keys
  }

  function makeKey(): StoredKey {
    const { privateKey } = generateKeyPairSync('ed25519')
    return { kid: newId(), private_jwk: privateKey.export({ format: 'jwk' }) as JWK, created_at: clock() }
  }

  async function all(): Promise<LoadedKey[]> {
    if (loaded && clock() - loaded.at < reloadAfterMs) return loaded.keys
    const known = loaded
    return reload().catch((error) => {
      // Keys rotate monthly, so cached ones are used while the store is unavailable.
      if (!known || !isUnavailable(error) || clock() - known.at > keepWhileAwayMs) throw error
      return known.keys
    })
  }

  return {
    async current() {
      const keys = await all()
      const ready = keys.findLast((key) => clock() - key.createdAt >= publishBeforeSigningMs)
      return ready ?? (keys[0] as LoadedKey)
    },
    async find(kid) {
      const known = (await all()).find((key) => key.kid === kid)
      if (known || (loaded && clock() - loaded.at < unknownKidPauseMs)) return known?.publicKey
      return (await reload()).find((key) => key.kid === kid)?.publicKey
    },
    async published() {
      const keys = await all()
      return {
        keys: keys.map(({ kid, publicKey }) => ({
          ...(publicKey.export({ format: 'jwk' }) as JWK),
          kid,
          use: 'sig',
          alg: 'EdDSA',
        })),
      }
    },
  }
}

function load({ kid, private_jwk, created_at }: StoredKey): LoadedKey {
  const privateKey = createPrivateKey({ key: private_jwk, format: 'jwk' })
  return { kid, createdAt: created_at, privateKey, publicKey: createPublicKey(privateKey) }
}
