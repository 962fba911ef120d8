import type { ClientMetadata } from 'oidc-provider'
import { nameProblem, tidyName } from '../lib/names.ts'
import { errors } from './library.ts'

export const longestClientName = 100
const metadataBytes = 8 * 1024
const mostUris = 10
const longestUri = 1_000

/** Limits for what a client says of itself when it registers or is first seen: anybody can send it. */
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
      throw new errors.InvalidClientMetadata(`${name} must not contain URIs of more than ${longestUri} characters`)
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
