import type { ClientMetadata } from 'oidc-provider'
import { scope } from '../../../kernel/http/protected-resources.ts'
import { nameProblem, tidyName } from '../../../kernel/lib/names.ts'
import { errors } from '../library.ts'

export const longestClientName = 100
const metadataBytes = 8 * 1024
const mostUris = 10
const longestUri = 1_000

export const knownScopes = ['openid', 'offline_access', scope]
const knownValues = { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] }

/**
 * Clients register with the same metadata at all kinds of servers, so values that this one doesn't support are removed
 * (RFC 7591, section 3.2.1). A client that is left with no grant or response type is refused by the library.
 */
export function leaveOutUnknown(metadata: ClientMetadata): void {
  for (const [name, value] of Object.entries(metadata)) if (value === null) delete metadata[name]
  for (const [name, known] of Object.entries(knownValues)) {
    const given = metadata[name]
    const kept = Array.isArray(given) ? given.filter((value) => known.includes(value)) : []
    if (kept.length > 0) metadata[name] = kept
  }
  if (typeof metadata.scope !== 'string') return
  const kept = metadata.scope.split(' ').filter((value) => knownScopes.includes(value))
  if (kept.length > 0) metadata.scope = kept.join(' ')
  else delete metadata.scope
}

/** Limits the metadata of a client that registers or is first seen: anyone can send it. */
export function checkNewClient(metadata: ClientMetadata): void {
  if (Buffer.byteLength(JSON.stringify(metadata)) > metadataBytes) {
    throw new errors.InvalidClientMetadata(`client metadata must not be larger than ${metadataBytes} bytes`)
  }
  for (const name of ['redirect_uris', 'post_logout_redirect_uris'] as const) {
    const uris = [metadata[name] ?? []].flat()
    if (uris.length > mostUris) {
      throw new errors.InvalidClientMetadata(`${name} must not contain more than ${mostUris} URIs`)
    }
    if (uris.some((uri) => String(uri).length > longestUri)) {
      throw new errors.InvalidClientMetadata(`${name} must not contain URIs longer than ${longestUri} characters`)
    }
  }
  if (typeof metadata.client_name !== 'string') return
  const name = tidyName(metadata.client_name)
  if ([...name].length > longestClientName) {
    throw new errors.InvalidClientMetadata(`client_name must not be longer than ${longestClientName} characters`)
  }
  const problem = name === '' ? undefined : nameProblem(name)
  if (problem) throw new errors.InvalidClientMetadata(`client_name is not valid: ${problem}`)
  metadata.client_name = name
}
