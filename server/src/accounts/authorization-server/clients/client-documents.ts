import type { ClientMetadata, KoaContextWithOIDC } from 'oidc-provider'
import type { Service } from '../../../kernel/foundation/service.ts'
import { fingerprint } from '../../../kernel/lib/secrets.ts'
import { SafeFetchError, type SafeFetchReason } from '../../../kernel/net/safe-fetch.ts'
import { Provider } from '../library.ts'

/** Outcome of the latest fetches of client metadata documents: `reached` or `unreachable`. */
const outcomeKey = 'oauth:client-documents'
const outcomeSeconds = 24 * 60 * 60

/** Failures that a network without egress causes. A client can cause them too, by naming a host that doesn't exist. */
const networkFailures = new Set<SafeFetchReason>(['dns', 'connection', 'timeout', 'tls'])

const noteReached = ({ kv }: Service): Promise<void> => kv.set(outcomeKey, 'reached', outcomeSeconds)

/** A failure doesn't replace a success: otherwise anyone could turn the feature off by naming an unknown host. */
async function noteFailure({ kv, config, log }: Service, reason: SafeFetchReason): Promise<void> {
  if (config.clientMetadataDocuments !== 'auto' || !networkFailures.has(reason)) return
  if (await kv.setIfAbsent(outcomeKey, 'unreachable', outcomeSeconds)) {
    log.warn('turned off client metadata documents for one day: this server seems to have no internet access')
  }
}

/** Whether the server's metadata offers client metadata documents. Otherwise, clients register. */
export async function offersClientDocuments({ kv, config }: Service): Promise<boolean> {
  if (config.clientMetadataDocuments !== 'auto') return config.clientMetadataDocuments === 'on'
  return (await kv.get(outcomeKey)) !== 'unreachable'
}

/**
 * Fetches a document that a client named: its metadata, or its keys. Anybody can name one, so in production the private
 * networks that the operator allowed for administrators' addresses stay closed.
 */
export async function fetchDocument(service: Service, address: string | URL, init: RequestInit): Promise<Response> {
  const { config, log } = service
  const fetch = config.mode === 'production' ? service.publicFetch : service.fetch
  try {
    const response = await fetch(address, init)
    await noteReached(service)
    return (response.status >= 500 && (await findKept(service, address))) || response
  } catch (error) {
    const reason = error instanceof SafeFetchError ? error.reason : undefined
    log.warn({ address: String(address), reason: reason ?? 'unknown' }, 'could not fetch a client document')
    if (reason) await noteFailure(service, reason)
    const kept = reason && networkFailures.has(reason) ? await findKept(service, address) : undefined
    if (kept) return kept
    throw error
  }
}

const keptKey = (clientId: string) => `oauth:client-document:${fingerprint(clientId)}`
/** Lifetime of a refresh token. */
const keptSeconds = 30 * 24 * 60 * 60

/** Keeps the document of a client that was just issued tokens: a user allowed it, so strangers can't fill the store. */
export async function keepDocument({ kv, log }: Service, { status, oidc }: KoaContextWithOIDC): Promise<void> {
  const { client } = oidc
  if (status !== 200 || !client || !('clientIdMetadataDocument' in client)) return
  await kv.set(keptKey(client.clientId), client.metadata(), keptSeconds).catch((error) => {
    // The tokens are already issued and must reach the client.
    log.warn({ err: error }, 'could not store a client document')
  })
}

/**
 * Lets clients that already have tokens use them while their document is unavailable. A sign-in fetches the document
 * again, except within the five minutes for which the library caches this response.
 */
async function findKept({ kv }: Service, address: string | URL): Promise<Response | undefined> {
  const route = Provider.ctx?.oidc?.route
  if (route !== 'token' && route !== 'revocation') return undefined
  const document = await kv.get<ClientMetadata>(keptKey(String(address)))
  return document && Response.json(document)
}
