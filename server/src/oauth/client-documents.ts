import type { SafeFetchReason } from '../lib/safe-fetch.ts'
import type { Service } from '../service.ts'

/** Outcome of the latest fetches of client metadata documents: `reached` or `unreachable`. */
const outcomeKey = 'oauth:client-documents'
const outcomeSeconds = 24 * 60 * 60

/** Failures that a network without egress causes. A client can cause them too, by naming a host that doesn't exist. */
const networkFailures = new Set<SafeFetchReason>(['dns', 'connection', 'timeout', 'tls'])

export const noteReached = ({ kv }: Service): Promise<void> => kv.set(outcomeKey, 'reached', outcomeSeconds)

/** A failure doesn't replace a success: otherwise anybody could end the offer by naming a host that doesn't exist. */
export async function noteFailure({ kv, config, log }: Service, reason: SafeFetchReason): Promise<void> {
  if (config.clientMetadataDocuments !== 'auto' || !networkFailures.has(reason)) return
  if (await kv.setIfAbsent(outcomeKey, 'unreachable', outcomeSeconds)) {
    log.warn('client metadata documents are not offered for a day: this server seems to have no access to the internet')
  }
}

/** Whether the server's metadata says that clients may be known by their documents. Without that, they register. */
export async function offersClientDocuments({ kv, config }: Service): Promise<boolean> {
  if (config.clientMetadataDocuments !== 'auto') return config.clientMetadataDocuments === 'on'
  return (await kv.get(outcomeKey)) !== 'unreachable'
}
