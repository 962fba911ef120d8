import { domainToASCII } from 'node:url'

/**
 * The form in which email addresses are stored and compared: the domain in IDNA's ASCII form, and the letters A to Z of
 * the local part in lower case. Other letters of the local part stay as they are: Unicode's folding would turn the Kelvin
 * sign into a k, which is an address that somebody else can own.
 */
export function canonicalEmail(email: string): string {
  const at = email.lastIndexOf('@')
  return at < 0 ? foldAscii(email) : `${foldAscii(email.slice(0, at))}@${canonicalDomain(email.slice(at + 1))}`
}

/** IDNA changes nothing in such a domain, and asking it takes 2 % of a call of a page's tool (`bench/hub.ts`). */
const plainDomain = /^(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]+$/

/** Domains that IDNA doesn't allow keep their characters, so that they only match themselves. */
function canonicalDomain(domain: string): string {
  if (plainDomain.test(domain)) return domain
  // `domainToASCII` would silently drop other parts of a URL, such as a path.
  const ascii = /^[\p{L}\p{M}\p{N}.-]+$/u.test(domain) ? domainToASCII(domain) : ''
  return ascii || foldAscii(domain)
}

const foldAscii = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
