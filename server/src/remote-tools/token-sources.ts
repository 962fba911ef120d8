import { LRUCache } from 'lru-cache'
import { readServerMetadata, type ServerMetadata } from '../connectors/server-metadata.ts'
import { StepFailed } from '../connectors/steps.ts'
import type { Consenting } from '../consent/consent.ts'
import { describeProvider } from '../delegation/held-identities.ts'
import { type ExchangeProvider, findProvider } from '../delegation/token-exchange.ts'
import type { Service } from '../foundation/service.ts'
import type { TrustedIssuer } from '../identity-provider/issuers.ts'

/** Issuers of assertions and access tokens, as published by the identity provider and the tool server. */
interface TokenSources {
  provider: ExchangeProvider
  server: ServerMetadata
}

/** Caches the published documents of each connector, which contain no secrets and no user data. */
export interface TokenSourcesCache {
  /** If `work` fails with cached documents, it runs once more with new ones, because endpoints may have moved. */
  use<T>(who: Consenting, trusted: TrustedIssuer, work: (sources: TokenSources) => Promise<T>): Promise<T>
}

const freshMs = 5 * 60_000
/** Minimum time between rereads after failures. */
const rereadMs = 30_000
const maxEntries = 1_000
/** Maximum length of cached documents, in characters. Longer ones are used but not cached. */
const maxLength = 8 * 1024

interface Entry {
  sources: Promise<TokenSources>
  since: number
}

export function createTokenSourcesCache(service: Pick<Service, 'fetch' | 'clock'>): TokenSourcesCache {
  const { clock } = service
  const entries = new LRUCache<string, Entry>({ max: maxEntries })

  function read(key: string, serverUrl: string, trusted: TrustedIssuer): Entry {
    const entry = { sources: readTokenSources(service, serverUrl, trusted), since: clock() }
    entries.set(key, entry)
    const forget = () => entries.get(key) === entry && entries.delete(key)
    entry.sources.then((sources) => JSON.stringify(sources).length > maxLength && forget(), forget)
    return entry
  }

  return {
    async use({ organizationId, connector }, trusted, work) {
      // The key changes with the connector and the provider.
      const key = [organizationId, connector.id, connector.updated_at, describeProvider(trusted)].join(' ')
      const cached = entries.get(key)
      const isFresh = cached && clock() - cached.since < freshMs
      const entry = isFresh ? cached : read(key, connector.server_url, trusted)
      try {
        return await work(await entry.sources)
      } catch (error) {
        if (!(error instanceof StepFailed) || clock() - entry.since < rereadMs) throw error
        const current = entries.get(key)
        const newer = current && current !== entry ? current : read(key, connector.server_url, trusted)
        return work(await newer.sources)
      }
    },
  }
}

async function readTokenSources(
  service: Pick<Service, 'fetch'>,
  serverUrl: string,
  trusted: TrustedIssuer,
): Promise<TokenSources> {
  const server = await readServerMetadata(service, serverUrl)
  return { server, provider: await findProvider(service, trusted) }
}
