export interface SafeLink {
  href: string
  /** What the user should know of the destination: a host, or an email address. */
  destination: string
}

const maxAddressLength = 2048

/** Accepts absolute addresses that show where they lead. Everything else is no link. */
export function readAddress(address: string): SafeLink | undefined {
  if (address.length > maxAddressLength) return undefined
  const [, recipient] = /^mailto:([\w.+-]+@[\w.-]+)(?:\?subject=[^&\s]*)?$/i.exec(address) ?? []
  if (recipient) return { href: address, destination: recipient }
  // The URL parser would also accept backslashes, spaces and missing slashes.
  if (!/^https?:\/\/[^\s\\]+$/i.test(address) || !URL.canParse(address)) return undefined
  const { href, host, username, password } = new URL(address)
  return username || password ? undefined : { href, destination: host }
}

/** Whether a link's text is itself an address that names the destination, so that it needn't be shown again. */
export function showsDestination(label: string, { destination }: SafeLink): boolean {
  const [, host] = /^(?:https?:\/\/)?([a-z\d.-]+(?::\d+)?)(?:[/?#]\S*)?$/i.exec(label) ?? []
  return (host ?? label).toLowerCase() === destination.toLowerCase()
}
