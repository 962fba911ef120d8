export interface SafeLink {
  href: string
  /** What the user should know of the destination: an address, the host of one that carries no data, or a mail address. */
  destination: string
}

const maxAddressLength = 2048
/** A longer path can carry data. */
const longestPlainPath = 16
const longestDestination = 120

/** Accepts absolute addresses that show where they lead. Everything else is no link. */
export function readAddress(address: string): SafeLink | undefined {
  if (address.length > maxAddressLength) return undefined
  const [, recipient] = /^mailto:([\w.+-]+@[\w.-]+)(?:\?subject=[^&\s]*)?$/i.exec(address) ?? []
  if (recipient) return { href: address, destination: recipient }
  // The URL parser would also accept backslashes, spaces and missing slashes.
  if (!/^https?:\/\/[^\s\\]+$/i.test(address) || !URL.canParse(address)) return undefined
  const url = new URL(address)
  return url.username || url.password ? undefined : { href: url.href, destination: describeDestination(url) }
}

/**
 * A model may have put data of the conversation into an address, and one click takes it along. So the address is shown:
 * without its query, honest links to searches and orders would break.
 */
function describeDestination({ href, host, pathname, search, hash }: URL): string {
  if (search === '' && hash === '' && pathname.length <= longestPlainPath) return host
  const address = withoutScheme(href)
  return address.length > longestDestination ? `${address.slice(0, longestDestination)}…` : address
}

const withoutScheme = (address: string): string => address.replace(/^https?:\/\//i, '')

/** Whether a link's text is itself an address that names the destination, so that it needn't be shown again. */
export function showsDestination(label: string, { href, destination }: SafeLink): boolean {
  const [, host] = /^(?:https?:\/\/)?([a-z\d.-]+(?::\d+)?)(?:[/?#]\S*)?$/i.exec(label) ?? []
  if ((host ?? label).toLowerCase() === destination.toLowerCase()) return true
  const address = `https://${withoutScheme(label)}`
  return host !== undefined && URL.canParse(address) && withoutScheme(new URL(address).href) === withoutScheme(href)
}
