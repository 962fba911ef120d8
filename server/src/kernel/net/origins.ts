import { isIP } from 'node:net'
import { domainToUnicode } from 'node:url'
import { getDomain } from 'tldts'

export class InvalidOrigin extends Error {
  override readonly name = 'InvalidOrigin'
}

/** Returns the canonical form of `https://host[:port]`: lower case, punycode, no default port. */
export const parseOrigin = (text: string): string => readOrigin(text, 'Wildcards aren’t allowed here. List each origin')

function readOrigin(text: string, wildcardProblem: string): string {
  const { scheme, host, port } = splitOrigin(text, wildcardProblem)
  const url = URL.parse(`${scheme}://${host}${port === undefined ? '' : `:${port}`}`)
  if (!url) throw new InvalidOrigin('The host of an origin must be a domain name or an IP address')
  checkHost(host, url.hostname)
  if (scheme === 'http' && !isLocal(url.hostname)) {
    throw new InvalidOrigin('An origin must start with https://; http:// is for localhost only')
  }
  return url.origin
}

/** Like `parseOrigin`, but also accepts a wildcard as the first label: `https://*.preview.example.com`. */
export function parseOriginPattern(text: string): string {
  const [, scheme, parent] = /^([a-z]+:\/\/)\*\.(.*)$/is.exec(text) ?? []
  const wildcardProblem = 'A wildcard must be the whole first label of the host'
  if (scheme === undefined || parent === undefined) return readOrigin(text, wildcardProblem)
  const url = new URL(readOrigin(scheme + parent, wildcardProblem))
  checkWildcardParent(url.hostname)
  return `${url.protocol}//*.${url.host}`
}

/**
 * Whether an Origin header matches one of the patterns, as returned by `parseOriginPattern`. A wildcard matches exactly
 * one label, as in a certificate.
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

/** The wildcard pattern that covers a canonical origin: `https://a.example.com` → `https://*.example.com`. */
export const wildcardOf = (origin: string): string => origin.replace(/\/\/[^.]+\./, '//*.')

function splitOrigin(text: string, wildcardProblem: string) {
  if (/[\s\p{Cc}]/u.test(text)) throw new InvalidOrigin('An origin must not contain spaces or control characters')
  const [, rawScheme, authority, rest] = /^([a-z][a-z0-9+.-]*):\/\/([^/?#\\]*)(.*)$/i.exec(text) ?? []
  const scheme = rawScheme?.toLowerCase()
  if ((scheme !== 'https' && scheme !== 'http') || authority === undefined) {
    throw new InvalidOrigin('An origin must start with https://')
  }
  if (rest) throw new InvalidOrigin('An origin must end after the host and port, without a trailing slash')
  if (authority.includes('@')) throw new InvalidOrigin('An origin must not contain a user name or a password')
  if (authority.includes('*')) throw new InvalidOrigin(wildcardProblem)

  const [, host = '', port] = /^(.*?)(?::([^:\]]*))?$/.exec(authority) ?? []
  if (port !== undefined && !(/^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535)) {
    throw new InvalidOrigin('The port of an origin must be a number from 1 to 65535')
  }
  return { scheme, host, port }
}

/**
 * URL parsers accept many spellings of one host (`127.1`, `ex%61mple.com`, full-width letters). Only the canonical one
 * is accepted, so that a list of origins means what it looks like.
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
  // A child that is a registrable domain, or itself a public suffix, may belong to a third party.
  if (domain === null || domain === child) {
    throw new InvalidOrigin(`A wildcard must not cover ${host}, where anyone can register a name`)
  }
}

export function isLocal(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || host === '127.0.0.1' || host === '[::1]'
}
