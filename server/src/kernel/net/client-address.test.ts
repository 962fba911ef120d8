import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createClientAddress, networksOf } from './client-address.ts'

const proxies = ['10.0.0.0/8', '2001:db8:ffff::/48', '::ffff:192.168.0.0/112']

const request = (remoteAddress: string | undefined, forwarded?: string) => ({
  socket: { remoteAddress },
  headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
})

describe('the client’s address', () => {
  test.each<[title: string, socket: string | undefined, forwarded: string | undefined, expected: string]>([
    ['is the socket’s', '203.0.113.7', undefined, '203.0.113.7'],
    ['is the socket’s, even if an untrusted client sends the header', '203.0.113.7', '198.51.100.1', '203.0.113.7'],
    ['is IPv4 even on an IPv6 socket', '::ffff:203.0.113.7', undefined, '203.0.113.7'],
    ['is the /64 network of an IPv6 address', '2001:db8:1:2:3:4:5:6', undefined, '2001:db8:1:2::/64'],
    ['ignores the zone of a link-local address', 'fe80::1%eth0', undefined, 'fe80::/64'],
    ['is unknown without a socket', undefined, '198.51.100.1', 'unknown'],
    ['is taken from a trusted proxy', '10.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['is taken from a trusted proxy with an IPv4-mapped address', '::ffff:10.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['is taken from a proxy trusted by an IPv4-mapped network', '192.168.0.5', '198.51.100.1', '198.51.100.1'],
    ['is taken from an IPv6 proxy', '2001:db8:ffff::1', '2001:db8:1:2::9', '2001:db8:1:2::/64'],
    [
      'is the address that the last proxy saw, not the one the client claimed',
      '10.0.0.1',
      '1.2.3.4, 198.51.100.1',
      '198.51.100.1',
    ],
    ['is found behind several trusted proxies', '10.0.0.1', '1.2.3.4, 198.51.100.1, 10.9.9.9', '198.51.100.1'],
    ['is the first entry if all are trusted', '10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['is the proxy’s if it sends no header', '10.0.0.1', undefined, '10.0.0.1'],
    ['is the proxy’s if its entry is not an address', '10.0.0.1', '198.51.100.1, unknown', '10.0.0.1'],
    ['is the last proxy’s before an invalid entry', '10.0.0.1', 'garbage, 10.0.0.2', '10.0.0.2'],
    ['may have a port', '10.0.0.1', '198.51.100.1:4711', '198.51.100.1'],
    ['may be in brackets', '10.0.0.1', '[2001:db8:1:2::9]:4711', '2001:db8:1:2::/64'],
    ['may be in quotes', '10.0.0.1', '"[2001:db8:1:2::9]"', '2001:db8:1:2::/64'],
    ['is not an abbreviated number', '10.0.0.1', '1', '10.0.0.1'],
  ])('%s', (_, socket, forwarded, expected) => {
    expect(createClientAddress(proxies)(request(socket, forwarded))).toBe(expected)
  })

  test('cannot be forged by a client behind a proxy', () => {
    fc.assert(
      fc.property(fc.string(), (claimed) => {
        const forwarded = `${claimed}, 198.51.100.1`
        expect(createClientAddress(proxies)(request('10.0.0.1', forwarded))).toBe('198.51.100.1')
      }),
    )
  })

  test('cannot be forged by a client that is not a trusted proxy', () => {
    fc.assert(
      fc.property(fc.string(), (claimed) => {
        expect(createClientAddress(proxies)(request('203.0.113.7', claimed))).toBe('203.0.113.7')
      }),
    )
  })
})

test('reports an untrusted proxy once', () => {
  const reported: string[] = []
  const addressOf = createClientAddress(proxies, (address) => reported.push(address))
  addressOf(request('203.0.113.7'))
  addressOf(request('10.0.0.1', '198.51.100.1'))
  expect(reported).toEqual([])
  addressOf(request('203.0.113.7', '198.51.100.1'))
  addressOf(request('203.0.113.8', '198.51.100.1'))
  expect(reported).toEqual(['203.0.113.7'])
})

test.each([
  ['203.0.113.7', ['203.0.113.7']],
  ['2001:db8:1:2::/64', ['2001:db8:1:2::/64', '2001:db8:1::/48']],
  ['unknown', ['unknown']],
])('the networks of %s', (address, networks) => {
  expect(networksOf(address)).toEqual(networks)
})
