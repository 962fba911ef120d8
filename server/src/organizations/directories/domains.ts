import { domainToASCII } from 'node:url'
import { getDomain } from 'tldts'

/** `ACME.example` → `acme.example`, in punycode. Null for IP addresses and names that can't be owned, such as `com`. */
export function parseDomain(text: string): string | null {
  // `domainToASCII` would silently drop other parts of a URL, such as a path.
  if (!/^[\p{L}\p{M}\p{N}.-]+$/u.test(text)) return null
  const domain = domainToASCII(text)
  const isName = domain.length <= 253 && domain.split('.').every((label) => /^[a-z0-9-]{1,63}$/.test(label))
  return isName && getDomain(domain, { allowPrivateDomains: true, extractHostname: false }) !== null ? domain : null
}
