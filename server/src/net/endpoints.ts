import { isLocal } from './origins.ts'

interface Endpoint {
  /** The field of the document, for the message. */
  name: string
  address: unknown
  /** The address that led to the document. */
  namedBy: string
  /** True for an address that people are sent to, instead of called by this server. */
  isLink?: boolean
}

/**
 * Why an endpoint that a document names can't be used; undefined if it can. It must be https, unless the document itself
 * came over plain http, as it may in development. People are then sent to loopback only: safe-fetch doesn't check links.
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
