import { createPublicKey, type KeyObject } from 'node:crypto'
import type { Service } from '../../kernel/foundation/service.ts'
import { DocumentCache } from '../../kernel/net/document-cache.ts'
import { DiscoveryFailed, discover, fetchJson } from './discovery.ts'
import type { TrustedIssuer } from './issuers.ts'

/**
 * Caches the signing keys of identity providers. A key that a provider withdraws is accepted for five more minutes, or
 * for an hour while the provider can't be reached. An unknown key id causes another fetch, because the key may be new,
 * but at most one in 30 seconds.
 */
export interface IssuerKeys {
  find(
    trusted: TrustedIssuer,
    kid: string | undefined,
    algorithm: string,
  ): Promise<{ issuer: string; key: KeyObject | undefined }>
}

const cachedIssuers = 1_000

interface Keys {
  issuer: string
  keys: { kid: string | undefined; kty: string; key: KeyObject }[]
}

export function createIssuerKeys(service: Pick<Service, 'fetch' | 'clock' | 'log'>): IssuerKeys {
  const { clock, log } = service
  const cache = new DocumentCache<Keys>({
    clock,
    limit: cachedIssuers,
    freshMs: 5 * 60_000,
    staleMs: 60 * 60_000,
    rereadMs: 30_000,
    retryMs: 30_000,
    onStale: (issuer, error) =>
      log.warn({ err: error, issuer }, 'Could not reach the identity provider; using its last keys'),
  })

  return {
    async find(trusted, kid, algorithm) {
      const read = () => fetchKeys(service, trusted)
      const known = await cache.get(trusted.issuer, read)
      const key = pick(known, kid, algorithm)
      if (key) return { issuer: known.issuer, key }
      const newer = await cache.newer(trusted.issuer, known, read).catch(() => known)
      return { issuer: newer.issuer, key: pick(newer, kid, algorithm) }
    },
  }
}

async function fetchKeys(service: Pick<Service, 'fetch'>, trusted: TrustedIssuer): Promise<Keys> {
  const { issuer, jwks_uri } = await discover(service, trusted)
  return { issuer, keys: await fetchSigningKeys(service, jwks_uri) }
}

export async function fetchSigningKeys(service: Pick<Service, 'fetch'>, jwks_uri: string): Promise<Keys['keys']> {
  const { keys } = await fetchJson(service, jwks_uri, 'keys')
  if (!Array.isArray(keys)) throw new DiscoveryFailed('no_keys', `${jwks_uri} has no keys`)
  return keys.flatMap(importKey)
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
