import { isIP } from 'node:net'
import { domainToUnicode } from 'node:url'
import { getDomain } from 'tldts'

export class InvalidOrigin extends Error {
  override readonly name = 'InvalidOrigin'
}

/** The canonical form of `https://host[:port]`: lower case, punycode, no default port. */
export function parseOrigin(text: string): string {
  const { scheme, host, port } = splitOrigin(text)
  const url = URL.parse(`${scheme}://${host}${port === undefined ? '' : `:${port}`}`)
  if (!url) throw new InvalidOrigin('The host of an origin must be a domain name or an IP address')
  checkHost(host, url.hostname)
  if (scheme === 'http' && !isLocal(url.hostname)) {
    throw new InvalidOrigin('An origin must start with https://; http:// is for localhost only')
  }
  return url.origin
}

/** An origin, or one with a wildcard for its first label: `https://*.preview.example.com`. */
export function parseOriginPattern(text: string): string {
  const [, scheme, parent] = /^([a-z]+:\/\/)\*\.(.*)$/is.exec(text) ?? []
  if (scheme === undefined || parent === undefined) return parseOrigin(text)
  const url = new URL(parseOrigin(scheme + parent))
  checkWildcardParent(url.hostname)
  return `${url.protocol}//*.${url.host}`
}

/**
 * Whether the text of an Origin header is one of the patterns, as `parseOriginPattern` returned them. A wildcard stands
 * for exactly one label, as in a certificate.
 */
export function matchesOrigin(origin: string, patterns: readonly string[]): boolean {
  try {
    const canonical = parseOrigin(origin)
    return patterns.includes(canonical) || patterns.includes(wildcardOf(canonical))
  } catch (error) {
    if (error instanceof InvalidOrigin) return false
    throw error
  }
}

/** The pattern with a wildcard that covers a canonical origin: `https://a.example.com` → `https://*.example.com`. */
export const wildcardOf = (origin: string): string => origin.replace(/\/\/[^.]+\./, '//*.')

function splitOrigin(text: string) {
  if (/[\s\p{Cc}]/u.test(text)) throw new InvalidOrigin('An origin must not contain spaces or control characters')
  const [, rawScheme, authority, rest] = /^([a-z][a-z0-9+.-]*):\/\/([^/?#\\]*)(.*)$/i.exec(text) ?? []
  const scheme = rawScheme?.toLowerCase()
  if ((scheme !== 'https' && scheme !== 'http') || authority === undefined) {
    throw new InvalidOrigin('An origin must start with https://')
  }
  if (rest) throw new InvalidOrigin('An origin must end after the host and the port, without even a slash')
  if (authority.includes('@')) throw new InvalidOrigin('An origin must not contain a user name or a password')
  if (authority.includes('*')) throw new InvalidOrigin('A wildcard may only be the whole first label of a pattern')

  const [, host = '', port] = /^(.*?)(?::([^:\]]*))?$/.exec(authority) ?? []
  if (port !== undefined && !(/^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535)) {
    throw new InvalidOrigin('The port of an origin must be a number from 1 to 65535')
  }
  return { scheme, host, port }
}

/**
 * URL parsers accept many spellings of one host (`127.1`, `ex%61mple.com`, full-width letters). Only the canonical one
 * passes, so that what a person reads in a list of origins is what it means.
 */
function checkHost(written: string, canonical: string) {
  const folded = written.toLowerCase().normalize('NFC')
  if (folded !== canonical && folded !== domainToUnicode(canonical)) {
    throw new InvalidOrigin(`The host of the origin must be written as ${canonical}`)
  }
  if (canonical.startsWith('[')) return
  if (canonical.endsWith('.')) throw new InvalidOrigin('The host of an origin must not end with a dot')
  if (canonical.length > 253 || !canonical.split('.').every((label) => /^[a-z0-9_-]{1,63}$/.test(label))) {
    throw new InvalidOrigin('Each label of the host must be 1 to 63 letters, digits, hyphens or underscores')
  }
}

function checkWildcardParent(host: string) {
  if (isIP(host) || host.startsWith('[')) throw new InvalidOrigin('A wildcard needs a domain name, not an IP address')
  if (isLocal(host)) return
  const child = `any.${host}`
  const domain = getDomain(child, { allowPrivateDomains: true, extractHostname: false })
  // A child that is a registrable domain, or itself a public suffix, may belong to a stranger.
  if (domain === null || domain === child) {
    throw new InvalidOrigin(`A wildcard must not cover ${host}, where anyone can register a name`)
  }
}

export function isLocal(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || host === '127.0.0.1' || host === '[::1]'
}
