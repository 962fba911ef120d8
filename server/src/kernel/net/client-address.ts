import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Request = Pick<IncomingMessage, 'headers'> & { socket: { remoteAddress?: string | undefined } }

/** Providers assign a whole IPv6 /64 to one customer, so its addresses count as one client. */
const ipv6Bits = 64
/** The largest network that anyone gets without asking for more, with 65 536 such clients. */
const siteBits = 48

/** Returns an IPv4 address, or the /64 network of an IPv6 address. */
export type ClientAddress = (request: Request) => string

/**
 * Reads the client's address from the socket, or from `X-Forwarded-For` if the socket belongs to a trusted proxy.
 * Calls `onUntrustedProxy` once, the first time that any other address sends that header.
 */
export function createClientAddress(
  trustedProxies: readonly string[],
  onUntrustedProxy?: (address: string) => void,
): ClientAddress {
  const trusted = trustedProxies.map(parseNetwork)
  const isTrusted = (ip: Address) =>
    trusted.some(([network, bits]) => network.kind() === ip.kind() && ip.match(network, bits))
  let warn = onUntrustedProxy
  return ({ socket, headers }) => {
    let client = parse(socket.remoteAddress ?? '')
    if (!client) return 'unknown'
    const forwardedFor = [headers['x-forwarded-for'] ?? []].flat().join(',')
    if (forwardedFor && warn && !isTrusted(client)) {
      warn(describe(client))
      warn = undefined
    }
    // Each proxy appends the address that connected to it, so entries left of the first untrusted one may be forged.
    const entries = forwardedFor.split(',')
    while (isTrusted(client)) {
      const previous = parse(entries.pop() ?? '')
      if (!previous) break
      client = previous
    }
    return describe(client)
  }
}

/** The address, and the IPv6 /48 that it is in, if it is in one: all addresses there may be of one stranger. */
export function networksOf(address: string): string[] {
  const [ip, bits] = address.split('/')
  return bits ? [address, networkOf(ip as string, siteBits)] : [address]
}

function parseNetwork(cidr: string): [Address, number] {
  const [network, bits] = ipaddr.parseCIDR(cidr)
  const isMapped = network instanceof ipaddr.IPv6 && network.isIPv4MappedAddress() && bits >= 96
  return isMapped ? [network.toIPv4Address(), bits - 96] : [network, bits]
}

/** Some proxies add the port: `192.0.2.1:5000`, `[2001:db8::1]:5000`. */
function parse(text: string): Address | undefined {
  const entry = text.trim().replace(/^"(.*)"$/, '$1')
  const [, bracketed] = /^\[([^\]]*)\](?::\d+)?$/.exec(entry) ?? []
  const [, ipv4] = /^([\d.]+):\d+$/.exec(entry) ?? []
  const address = (bracketed ?? ipv4 ?? entry).replace(/%.*$/, '')
  // `process` turns an IPv4-mapped IPv6 address into the IPv4 address.
  return isIP(address) ? ipaddr.process(address) : undefined
}

function describe(ip: Address): string {
  if (ip instanceof ipaddr.IPv4) return ip.toString()
  return networkOf(ip.toString(), ipv6Bits)
}

const networkOf = (ipv6: string, bits: number): string =>
  `${ipaddr.IPv6.networkAddressFromCIDR(`${ipv6}/${bits}`)}/${bits}`
