import { domainToASCII } from 'node:url'
import { getDomain } from 'tldts'

/** `ACME.example` → `acme.example`, in punycode; null for what no organization can own, such as `com` or an address. */
export function parseDomain(text: string): string | null {
  // What is no part of a name, such as a path, would be dropped without a word.
  if (!/^[\p{L}\p{M}\p{N}.-]+$/u.test(text)) return null
  const domain = domainToASCII(text)
  const isName = domain.length <= 253 && domain.split('.').every((label) => /^[a-z0-9-]{1,63}$/.test(label))
  return isName && getDomain(domain, { allowPrivateDomains: true, extractHostname: false }) !== null ? domain : null
}
