import { createPublicKey, type KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Service } from '../foundation/service.ts'
import { DiscoveryFailed, discover, fetchJson } from './discovery.ts'
import type { TrustedIssuer } from './issuers.ts'

/**
 * Caches the signing keys of identity providers. A key that a provider withdraws is accepted for five more minutes, or
 * for an hour while the provider can't be reached. An unknown key id causes another fetch, because the key may be new,
 * but at most one in 30 seconds.
 */
export interface ProviderKeys {
  find(
    trusted: TrustedIssuer,
    kid: string | undefined,
    algorithm: string,
  ): Promise<{ issuer: string; key: KeyObject | undefined }>
}

const freshMs = 5 * 60_000
const staleMs = 60 * 60_000
const retryMs = 30_000
const rememberedIssuers = 1_000

interface Keys {
  issuer: string
  keys: { kid: string | undefined; kty: string; key: KeyObject }[]
  fetchedAt: number
}

interface Remembered {
  keys?: Keys
  triedAt: number
  failure?: DiscoveryFailed
  pending?: Promise<Keys>
}

export function createProviderKeys(service: Pick<Service, 'fetch' | 'clock' | 'log'>): ProviderKeys {
  const { clock, log } = service
  const issuers = new LRUCache<string, Remembered>({ max: rememberedIssuers })

  function refresh(trusted: TrustedIssuer, remembered: Remembered): Promise<Keys> {
    // Concurrent callers share one fetch.
    remembered.pending ??= fetchKeys(service, trusted)
      .then((keys) => {
        remembered.keys = keys
        delete remembered.failure
        return keys
      })
      .catch((error) => {
        if (error instanceof DiscoveryFailed) remembered.failure = error
        throw error
      })
      .finally(() => {
        remembered.triedAt = clock()
        delete remembered.pending
      })
    return remembered.pending
  }

  async function current(trusted: TrustedIssuer, remembered: Remembered): Promise<Keys> {
    const { keys, triedAt, failure } = remembered
    if (keys && clock() - keys.fetchedAt < freshMs) return keys
    const isStillGood = keys && clock() - keys.fetchedAt < staleMs
    if (clock() - triedAt < retryMs) {
      if (isStillGood) return keys
      if (failure) throw failure
    }
    try {
      return await refresh(trusted, remembered)
    } catch (error) {
      if (!isStillGood) throw error
      log.warn({ err: error, issuer: trusted.issuer }, 'could not reach the identity provider; using its last keys')
      return keys
    }
  }

  return {
    async find(trusted, kid, algorithm) {
      const remembered = issuers.get(trusted.issuer) ?? { triedAt: Number.NEGATIVE_INFINITY }
      issuers.set(trusted.issuer, remembered)
      const known = await current(trusted, remembered)
      const key = pick(known, kid, algorithm)
      if (key || clock() - remembered.triedAt < retryMs) return { issuer: known.issuer, key }
      const fetched = await refresh(trusted, remembered).catch(() => known)
      return { issuer: fetched.issuer, key: pick(fetched, kid, algorithm) }
    },
  }
}

async function fetchKeys(service: Pick<Service, 'fetch' | 'clock'>, trusted: TrustedIssuer): Promise<Keys> {
  const { issuer, jwks_uri } = await discover(service, trusted)
  const { keys } = await fetchJson(service, jwks_uri, 'keys')
  if (!Array.isArray(keys)) throw new DiscoveryFailed('no_keys', `${jwks_uri} has no keys`)
  return { issuer, keys: keys.flatMap(importKey), fetchedAt: service.clock() }
}

/** Ignores encryption keys, symmetric keys and unknown key types. */
function importKey(jwk: Record<string, unknown>): Keys['keys'] {
  if (jwk?.use === 'enc' || !['RSA', 'EC', 'OKP'].includes(String(jwk?.kty))) return []
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' })
    return [{ kid: typeof jwk.kid === 'string' ? jwk.kid : undefined, kty: String(jwk.kty), key }]
  } catch {
    return []
  }
}

function pick({ keys }: Keys, kid: string | undefined, algorithm: string): KeyObject | undefined {
  const kty = algorithm.startsWith('ES') ? 'EC' : algorithm === 'EdDSA' ? 'OKP' : 'RSA'
  const fitting = keys.filter((entry) => entry.kty === kty)
  if (kid !== undefined) return fitting.find((entry) => entry.kid === kid)?.key
  // Without a key id, the key must be unambiguous.
  return fitting.length === 1 ? fitting[0]?.key : undefined
}
