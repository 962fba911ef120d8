import { isLocal } from './origins.ts'

interface Endpoint {
  /** The document's field, for the message. */
  name: string
  address: unknown
  /** The address that the document was found at. */
  namedBy: string
  /** True for an address that users are redirected to; false for one that this server calls. */
  isLink?: boolean
}

/**
 * Explains why an endpoint from a document can't be used, or returns undefined. It must be https, unless the document
 * was fetched over plain http, as in development. Even then users are only redirected to loopback, because safe-fetch
 * can't check them.
 */
export function findEndpointProblem({ name, address, namedBy, isLink = false }: Endpoint): string | undefined {
  const url = typeof address === 'string' ? URL.parse(address) : null
  if (!url) return `${name} is not a URL`
  if (url.username || url.password) return `${name} must not contain a user name or a password`
  if (url.hash) return `${name} must not contain a fragment`
  const isPlainAllowed = namedBy.startsWith('http:') && (!isLink || isLocal(url.hostname))
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isPlainAllowed)) return undefined
  return `${name} must start with https://, but it is ${String(address).slice(0, 100)}`
}
