import type { JWK } from 'jose'
import { readLimited } from './limited-text.ts'
import { PublicKeys } from './public-keys.ts'
import { requireSafeUrl } from './safe-url.ts'
import type { Verify } from './signatures.ts'

/** In milliseconds. */
const fresh = 10 * 60_000
/** Keys that cannot be fetched again are believed for so long: an outage of the provider is not at once ours. */
const stale = 60 * 60_000
/** However many unknown key ids arrive, they cause one fetch in this time. */
const coolDown = 30_000
const coolDownAfterFailure = 5_000
const timeLimit = 5_000
const sizeLimit = 256 * 1024

export interface ProviderKeysOptions {
  issuer: string
  /** Where its keys are. Without it, the provider's discovery document says so. */
  jwksUri?: string | undefined
  fetch: typeof fetch
  clock: () => number
}

/** The keys of one identity provider. Its address comes from the configuration, never from a token. */
export class ProviderKeys {
  readonly #options: ProviderKeysOptions
  #keys = new PublicKeys([])
  #fetchedAt = Number.NEGATIVE_INFINITY
  #nextFetch = Number.NEGATIVE_INFINITY
  #fetching: Promise<void> | undefined
  #failure: unknown

  constructor(options: ProviderKeysOptions) {
    this.#options = options
  }

  /** Why the last fetch failed, if it did. */
  get failure(): unknown {
    return this.#failure
  }

  async find(keyId: string, alg: string): Promise<Verify | undefined> {
    const known = await this.#keys.find(keyId, alg)
    if (known && this.#age() < fresh) return known
    await this.#refresh()
    return this.#age() < stale ? this.#keys.find(keyId, alg) : undefined
  }

  #age(): number {
    return this.#options.clock() - this.#fetchedAt
  }

  #refresh(): Promise<void> | undefined {
    if (this.#fetching || this.#options.clock() < this.#nextFetch) return this.#fetching
    this.#fetching = this.#fetch().finally(() => {
      this.#fetching = undefined
    })
    return this.#fetching
  }

  async #fetch(): Promise<void> {
    const { clock } = this.#options
    try {
      this.#keys = new PublicKeys(await fetchKeys(this.#options))
      this.#failure = undefined
      this.#fetchedAt = clock()
      this.#nextFetch = clock() + coolDown
    } catch (error) {
      this.#failure = error
      this.#nextFetch = clock() + coolDownAfterFailure
    }
  }
}

async function fetchKeys({ issuer, jwksUri, fetch }: ProviderKeysOptions): Promise<JWK[]> {
  const { keys } = await fetchObject(fetch, jwksUri ?? (await discoverJwksUri(issuer, fetch)))
  if (!Array.isArray(keys)) throw new Error('The identity provider publishes no keys')
  return keys.filter((key) => typeof key === 'object' && key !== null)
}

async function discoverJwksUri(issuer: string, fetch: ProviderKeysOptions['fetch']): Promise<string> {
  const document = await fetchObject(fetch, `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  if (document.issuer !== issuer) throw new Error(`The discovery document is that of another issuer`)
  return requireSafeUrl(String(document.jwks_uri), 'The jwks_uri of the identity provider').href
}

async function fetchObject(fetch: ProviderKeysOptions['fetch'], url: string): Promise<Record<string, unknown>> {
  const signal = AbortSignal.timeout(timeLimit)
  const response = await fetch(url, { headers: { accept: 'application/json' }, redirect: 'manual', signal })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(`The identity provider answered ${response.status}`)
  }
  const text = await readLimited(response.body, sizeLimit)
  if (text === undefined) throw new Error('The identity provider answered with too much')
  const value: unknown = JSON.parse(text)
  if (typeof value !== 'object' || value === null) throw new Error('The identity provider answered with no object')
  return value as Record<string, unknown>
}
