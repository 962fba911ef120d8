import { type CryptoKey, createLocalJWKSet, type JWK, type JWTHeaderParameters } from 'jose'
import { readLimited, requireSafeUrl } from './http.ts'
import { refuse } from './refusals.ts'

// Times are in milliseconds.
/** How long a key is accepted after the provider has withdrawn it. */
const fresh = 60_000
/** How long keys are used while the provider can't be reached. */
const stale = 60 * 60_000
/** Minimum time between two fetches, however many unknown key ids arrive. */
const coolDown = 30_000
const coolDownAfterFailure = 5_000
const timeLimit = 5_000
/** Maximum size of a provider's document, in bytes. */
const sizeLimit = 256 * 1024

export interface ProviderKeysOptions {
  issuer: string
  /** URL of the keys. Default: the one in the provider's discovery document. */
  jwksUri?: string | undefined
  fetch: typeof fetch
  clock: () => number
}

const noKeys = createLocalJWKSet({ keys: [] })

/**
 * The keys of one identity provider. Their URL comes from the configuration, never from a token. We don't use jose's
 * `createRemoteJWKSet`, because it has no discovery and no size limit, and doesn't use cached keys while the provider
 * is unreachable.
 */
export class ProviderKeys {
  readonly #options: ProviderKeysOptions
  #keys = noKeys
  #fetchedAt = Number.NEGATIVE_INFINITY
  #nextFetch = Number.NEGATIVE_INFINITY
  #fetching: Promise<void> | undefined
  /** The error of the last fetch, if it failed. */
  #failure: unknown

  constructor(options: ProviderKeysOptions) {
    this.#options = options
  }

  async find(header: JWTHeaderParameters): Promise<CryptoKey> {
    const known = this.#age() < fresh ? await this.#keys(header).catch(() => undefined) : undefined
    if (known) return known
    await this.#refresh()
    try {
      return await (this.#age() < stale ? this.#keys : noKeys)(header)
    } catch (error) {
      if (this.#failure) refuse('provider_unreachable', this.#failure)
      throw error
    }
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
      this.#keys = createLocalJWKSet({ keys: await fetchKeys(this.#options) })
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
  if (!Array.isArray(keys)) throw new Error("The identity provider's key set has no keys")
  return keys.filter((key) => typeof key === 'object' && key !== null && !Array.isArray(key))
}

async function discoverJwksUri(issuer: string, fetch: ProviderKeysOptions['fetch']): Promise<string> {
  const document = await fetchObject(fetch, `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  if (document.issuer !== issuer) throw new Error(`The discovery document of ${issuer} has another issuer`)
  return requireSafeUrl(String(document.jwks_uri), "The identity provider's jwks_uri").href
}

async function fetchObject(fetch: ProviderKeysOptions['fetch'], url: string): Promise<Record<string, unknown>> {
  const signal = AbortSignal.timeout(timeLimit)
  const response = await fetch(url, { headers: { accept: 'application/json' }, redirect: 'manual', signal })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(`${url} responded with status ${response.status} instead of 200`)
  }
  const text = await readLimited(response.body, sizeLimit)
  if (text === undefined) throw new Error(`The response from ${url} is larger than 256 KiB`)
  const value: unknown = JSON.parse(text)
  if (typeof value !== 'object' || value === null) throw new Error(`The response from ${url} isn't a JSON object`)
  return value as Record<string, unknown>
}
