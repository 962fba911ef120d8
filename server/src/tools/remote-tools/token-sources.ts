import type { Service } from '../../kernel/foundation/service.ts'
import { DocumentCache } from '../../kernel/net/document-cache.ts'
import { describeIdentityProvider, type TrustedIssuer } from '../../visitors/identity-provider/issuers.ts'
import { readServerMetadata, type ServerMetadata } from '../connectors/server-metadata.ts'
import { StepFailed } from '../connectors/steps.ts'
import type { Consenting } from '../consent/consent.ts'
import { type AssertionIssuer, findAssertionIssuer } from '../delegation/token-exchange.ts'

/** Issuers of assertions and access tokens, as published by the identity provider and the tool server. */
interface TokenSources {
  provider: AssertionIssuer
  server: ServerMetadata
}

/** Caches the published documents of each connector, which contain no secrets and no user data. */
export interface TokenSourcesCache {
  /** If `work` fails with cached documents, it runs once more with new ones, because endpoints may have moved. */
  use<T>(who: Consenting, trusted: TrustedIssuer, work: (sources: TokenSources) => Promise<T>): Promise<T>
}

/** Maximum length of cached documents, in characters. Longer ones are used but not cached. */
const maxLength = 8 * 1024

export function createTokenSourcesCache(service: Pick<Service, 'fetch' | 'clock'>): TokenSourcesCache {
  const cache = new DocumentCache<TokenSources>({
    clock: service.clock,
    limit: 1_000,
    freshMs: 5 * 60_000,
    staleMs: 5 * 60_000,
    rereadMs: 30_000,
    retryMs: 0,
    isKept: (sources) => JSON.stringify(sources).length <= maxLength,
  })

  return {
    async use({ organizationId, connector }, trusted, work) {
      // The key changes with the connector and the provider.
      const key = [organizationId, connector.id, connector.updated_at, describeIdentityProvider(trusted)].join(' ')
      const read = () => readTokenSources(service, connector.server_url, trusted)
      const sources = await cache.get(key, read)
      try {
        return await work(sources)
      } catch (error) {
        const newer = error instanceof StepFailed ? await cache.newer(key, sources, read) : sources
        if (newer === sources) throw error
        return work(newer)
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
  return { server, provider: await findAssertionIssuer(service, trusted) }
}
