import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { cert, key } from '../../../test/localhost-certificate.ts'
import { createSafeFetch, type LookupAll, type SafeFetchOptions } from './safe-fetch.ts'

const loopback = ['127.0.0.0/8', '::1/128']

function createFetch(options: Partial<SafeFetchOptions> = {}) {
  const safeFetch = createSafeFetch({ allowedPrivateNetworks: loopback, ...options })
  onTestFinished(() => safeFetch.close())
  return safeFetch
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

const serve = async (handler: RequestListener) => `http://127.0.0.1:${await listen(createServer(handler))}`
const serveTls = (handler: RequestListener) => listen(createTlsServer({ key, cert }, handler))

/** Returns the next list of addresses for each lookup, and repeats the last one. */
function resolveTo(...answers: string[][]) {
  let calls = 0
  return vi.fn<LookupAll>((_hostname, _options, callback) => {
    const addresses = answers[Math.min(calls++, answers.length - 1)] ?? []
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    )
  })
}

describe('addresses', () => {
  test.each([
    ['loopback', '127.0.0.1'],
    ['all of loopback', '127.255.255.254'],
    ['unspecified', '0.0.0.0'],
    ['this network', '0.1.2.3'],
    ['private, class A', '10.1.2.3'],
    ['private, class B', '172.31.255.255'],
    ['private, class C', '192.168.0.1'],
    ['carrier-grade NAT', '100.64.0.1'],
    ['cloud metadata', '169.254.169.254'],
    ['cloud metadata of containers', '169.254.170.2'],
    ['cloud metadata of Alibaba', '100.100.100.200'],
    ['cloud metadata of Oracle', '192.0.0.192'],
    ['the wire server of Azure', '168.63.129.16'],
    ['protocol assignments', '192.0.0.8'],
    ['documentation', '203.0.113.7'],
    ['benchmarking', '198.18.0.1'],
    ['6to4 relay', '192.88.99.1'],
    ['multicast', '224.0.0.1'],
    ['reserved', '240.0.0.1'],
    ['broadcast', '255.255.255.255'],
    ['octal', '0177.0.0.1'],
    ['hexadecimal', '0x7f.0.0.1'],
    ['one hexadecimal number', '0x7f000001'],
    ['one decimal number', '2130706433'],
    ['abbreviated', '127.1'],
    ['full-width digits', '１２７.０.０.１'],
    ['percent-encoded', '%31%32%37.0.0.1'],
    ['with a trailing dot', '127.0.0.1.'],
    ['IPv6 loopback', '[::1]'],
    ['IPv6 unspecified', '[::]'],
    ['IPv6 link-local', '[fe80::1]'],
    ['IPv6 site-local', '[fec0::1]'],
    ['IPv6 unique-local, cloud metadata', '[fd00:ec2::254]'],
    ['IPv6 multicast', '[ff02::1]'],
    ['IPv6 documentation', '[2001:db8::1]'],
    ['IPv6 benchmarking', '[2001:2::1]'],
    ['IPv6 discard', '[100::1]'],
    ['IPv6 unallocated', '[4000::1]'],
    ['IPv4-mapped', '[::ffff:127.0.0.1]'],
    ['IPv4-mapped, hexadecimal', '[::ffff:a9fe:a9fe]'],
    ['IPv4-compatible', '[::127.0.0.1]'],
    ['IPv4-translated', '[::ffff:0:127.0.0.1]'],
    ['6to4', '[2002:7f00:1::]'],
    ['NAT64', '[64:ff9b::10.0.0.1]'],
    ['NAT64, local use', '[64:ff9b:1::8.8.8.8]'],
    ['NAT64, cloud metadata', '[64:ff9b::a83f:8110]'],
    ['NAT64, local use, cloud metadata', '[64:ff9b:1:a9fe:a9:fe00::]'],
    ['IPv4-mapped, the wire server of Azure', '[::ffff:168.63.129.16]'],
    ['Teredo', '[2001:0:7f00:1::]'],
    ['Teredo of a public server', '[2001:0:808:808:8000:0:5601:5601]'],
    ['6to4 of a public host', '[2002:808:808::1]'],
    ['ISATAP', '[2606:4700::5efe:10.0.0.1]'],
    ['ISATAP of a public host', '[2606:4700::200:5efe:8.8.8.8]'],
    ['IPv6 cloud metadata of Google', '[fd20:ce::254]'],
    ['IPv6 documentation, the newer range', '[3fff::1]'],
    ['IPv6 protocol assignments', '[2001:1::1]'],
    ['IPv6 segment routing', '[5f00::1]'],
    ['the name localhost', 'localhost'],
  ])('rejects %s: %s', async (_name, host) => {
    const safeFetch = createFetch({ allowedPrivateNetworks: [] })
    for (const scheme of ['http', 'https']) {
      await expect(safeFetch(`${scheme}://${host}/`)).rejects.toMatchObject({ reason: 'blocked_address' })
    }
  })

  test('rejects every address of the private ranges', async () => {
    const safeFetch = createFetch({ allowedPrivateNetworks: [] })
    const byte = fc.nat(255)
    const group = fc.nat(0xffff).map((value) => value.toString(16))
    const privateAddress = fc.oneof(
      fc.tuple(fc.constantFrom(0, 10, 127), byte, byte, byte).map((octets) => octets.join('.')),
      fc.tuple(fc.integer({ min: 16, max: 31 }), byte, byte).map((octets) => `172.${octets.join('.')}`),
      fc.tuple(fc.integer({ min: 64, max: 127 }), byte, byte).map((octets) => `100.${octets.join('.')}`),
      fc.tuple(fc.constantFrom('192.168', '169.254'), byte, byte).map((octets) => octets.join('.')),
      fc.tuple(fc.integer({ min: 224, max: 255 }), byte, byte, byte).map((octets) => octets.join('.')),
    )
    const privateHost = fc.oneof(
      privateAddress,
      privateAddress.map((address) => `[::ffff:${address}]`),
      privateAddress.map((address) => `[64:ff9b::${address}]`),
      fc.tuple(fc.constantFrom('fc00', 'fdab', 'fe80', 'ff0e'), group, group).map(([a, b, c]) => `[${a}:${b}::${c}]`),
    )
    await fc.assert(
      fc.asyncProperty(privateHost, async (host) => {
        await expect(safeFetch(`https://${host}/`)).rejects.toMatchObject({ reason: 'blocked_address' })
      }),
    )
  })

  test.each([
    ['a private address', ['10.0.0.1']],
    ['public and private addresses', ['8.8.8.8', '127.0.0.1']],
    ['public IPv4 and private IPv6', ['8.8.8.8', '::1']],
    ['something that is not an address', ['8.8.8.8', 'example.com']],
    ['an address with a zone', ['fe80::1%eth0.1']],
  ])('rejects a name that resolves to %s', async (_name, addresses) => {
    const safeFetch = createFetch({ allowedPrivateNetworks: [], lookup: resolveTo(addresses) })
    await expect(safeFetch('https://name.test/')).rejects.toMatchObject({ reason: 'blocked_address' })
  })

  const metadata = ['169.254.169.254', '168.63.129.16', '100.100.100.200', '192.0.0.192', 'fd00:ec2::254']
  test.each([
    ...metadata.map((address) => [address, ['0.0.0.0/0', '::/0', '169.0.0.0/8', '100.64.0.0/10', 'fc00::/7']] as const),
    ['64:ff9b::a9fe:a9fe', ['::/0', '64:ff9b::/96']] as const,
    ['2002:a9fe:a9fe::', ['::/0', '2002::/16']] as const,
    ['2001:0:a9fe:a9fe::', ['::/0']] as const,
    ['2001:0:808:808::5601:5601', ['::/0']] as const,
    ['::169.254.169.254', ['::/0']] as const,
    ['::ffff:169.254.169.254', ['::/0', '0.0.0.0/0']] as const,
    ['fd00::5efe:169.254.169.254', ['fd00::/8']] as const,
  ])('rejects %s even if %j are allowed', async (address, allowedPrivateNetworks) => {
    const safeFetch = createFetch({ allowedPrivateNetworks, lookup: resolveTo([address]) })
    await expect(safeFetch('https://name.test/')).rejects.toMatchObject({ reason: 'blocked_address' })
  })

  test.each([
    ['169.254.169.254', '169.254.169.254/32'],
    ['169.254.169.254', '169.254.0.0/16'],
    ['168.63.129.16', '168.63.129.16/32'],
    ['fd00:ec2::254', 'fd00:ec2::254/128'],
  ])('connects to %s if %s is allowed', async (address, network) => {
    const safeFetch = createFetch({
      allowedPrivateNetworks: [network],
      lookup: resolveTo([address]),
      timeoutMs: 50,
    })
    const error = await safeFetch('https://name.test:9/').catch((reason) => reason)
    expect(error.reason).not.toBe('blocked_address')
  })

  test('leaves the address out of the message', async () => {
    const safeFetch = createFetch({ lookup: resolveTo(['10.9.8.7']) })
    const error = await safeFetch('https://name.test/').catch((error: Error) => error)
    expect(error).toMatchObject({ message: expect.not.stringContaining('10.9.8.7'), cause: expect.any(Error) })
    expect(String((error as Error).cause)).toContain('10.9.8.7')
  })

  test('connects to the address that it checked, even if the name resolves differently later', async () => {
    const lookup = resolveTo(['127.0.0.1'], ['169.254.169.254'])
    const safeFetch = createFetch({ lookup })
    const origin = await serve((_request, response) => response.setHeader('connection', 'close').end('checked'))
    const url = origin.replace('127.0.0.1', 'rebinding.test')

    expect(await (await safeFetch(url)).text()).toBe('checked')
    expect(lookup).toHaveBeenCalledTimes(1)
    await expect(safeFetch(url)).rejects.toMatchObject({ reason: 'blocked_address' })
  })

  test('allows only the configured private networks', async () => {
    const safeFetch = createFetch({ allowedPrivateNetworks: ['127.0.0.1/32'] })
    const origin = await serve((_request, response) => response.end('ok'))

    expect((await safeFetch(origin)).status).toBe(200)
    expect((await safeFetch(origin.replace('127.0.0.1', '[::ffff:127.0.0.1]'))).status).toBe(200)
    const neighbour = origin.replace('127.0.0.1', '127.0.0.2')
    await expect(safeFetch(neighbour)).rejects.toMatchObject({ reason: 'blocked_address' })
  })

  test('rejects a malformed network', () => {
    expect(() => createSafeFetch({ allowedPrivateNetworks: ['10.0.0.0'] })).toThrow()
  })

  test('reports a name that does not resolve', async () => {
    const failing: LookupAll = (_hostname, _options, callback) =>
      callback(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), [])
    for (const lookup of [failing, resolveTo([])]) {
      await expect(createFetch({ lookup })('https://name.test/')).rejects.toMatchObject({ reason: 'dns' })
    }
  })
})

describe('URLs', () => {
  test.each([
    'file:///etc/passwd',
    'ftp://example.com/',
    'data:text/plain,hello',
    'javascript:alert(1)',
    'https://user@example.com/',
    'https://user:secret@example.com/',
    'https://',
    '/relative',
    'https://exa mple.com/',
  ])('rejects %s', async (url) => {
    const lookup = resolveTo(['127.0.0.1'])
    await expect(createFetch({ lookup })(url)).rejects.toMatchObject({ reason: 'invalid_url' })
    expect(lookup).not.toHaveBeenCalled()
  })

  test.each([
    'http://8.8.8.8/',
    'http://[2606:4700:4700::1111]/',
    'http://[64:ff9b::8.8.8.8]/',
    'http://public.test/',
    'http://half-public.test/',
  ])('rejects plain http to a public address: %s', async (url) => {
    const lookup = resolveTo(url.includes('half') ? ['127.0.0.1', '8.8.8.8'] : ['8.8.8.8'])
    await expect(createFetch({ lookup })(url)).rejects.toMatchObject({ reason: 'invalid_url' })
  })
})

describe('requests and responses', () => {
  test('sends the same request as fetch and returns the same response', async () => {
    const origin = await serve(async (request, response) => {
      const body = (await request.toArray()).join('')
      response.writeHead(418, 'Teapot', [
        ['set-cookie', 'a=1'],
        ['set-cookie', 'b=2'],
        ['content-encoding', 'gzip'],
        ['x-length', String(request.headers['content-length'])],
      ])
      response.end(gzipSync(`${request.method} ${request.url} ${request.headers['content-type']} ${body}`))
    })
    const init = { method: 'PUT', body: new URLSearchParams({ a: '1' }) }
    const safeFetch = createFetch()

    for (const response of [
      await safeFetch(`${origin}/path?q=1`, init),
      await safeFetch(new URL('/path?q=1', origin), init),
      await safeFetch(new Request(`${origin}/path?q=1`, init)),
    ]) {
      expect(response).toBeInstanceOf(Response)
      expect(await response.text()).toBe('PUT /path?q=1 application/x-www-form-urlencoded;charset=UTF-8 a=1')
      expect([response.status, response.statusText]).toEqual([418, 'Teapot'])
      expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
      expect(response.headers.get('x-length')).toBe('3')
      for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) {
        expect(response.headers.has(name)).toBe(false)
      }
    }
  })

  test('sends a form', async () => {
    const origin = await serve((request, response) => request.pipe(response))
    const body = new FormData()
    body.set('field', 'value')
    const response = await createFetch()(origin, { method: 'POST', body })
    expect(await response.text()).toContain('name="field"\r\n\r\nvalue')
  })

  test.each([204, 205, 304])('returns an empty %d', async (status) => {
    const origin = await serve((_request, response) => response.writeHead(status).end())
    const response = await createFetch()(origin)
    expect([response.status, response.body]).toEqual([status, null])
  })

  test.each<[string, (text: string) => Buffer | string]>([
    ['gzip', gzipSync],
    ['X-GZIP', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
    ['gzip, br', (text) => brotliCompressSync(gzipSync(text))],
    ['unknown', (text) => text],
    ['gzip, unknown', (text) => text],
    ['', (text) => text],
  ])('decodes a body encoded with "%s" if it knows every encoding', async (encoding, encode) => {
    const origin = await serve((_request, response) =>
      response.setHeader('content-encoding', encoding).end(encode('hello')),
    )
    expect(await (await createFetch()(origin)).text()).toBe('hello')
    expect(await (await createFetch({ streamIdleMs: 5_000 })(origin)).text()).toBe('hello')
  })

  test.each(['gzip', 'deflate', 'br'])('accepts an empty body with the encoding %s', async (encoding) => {
    const origin = await serve((_request, response) => response.setHeader('content-encoding', encoding).end())
    expect(await (await createFetch()(origin)).text()).toBe('')
  })

  test.each([
    ['is not encoded as declared', 'gzip', 'no gzip at all'],
    ['has too many encodings', Array(6).fill('gzip').join(), gzipSync('hello')],
  ])('rejects a body that %s', async (_, encoding, body) => {
    const origin = await serve((_request, response) => response.setHeader('content-encoding', encoding).end(body))
    await expect(createFetch()(origin)).rejects.toMatchObject({ reason: 'connection' })
  })

  test('sets the headers of the connection itself', async () => {
    const origin = await serve((request, response) => response.end(JSON.stringify(request.headers)))
    const headers = { host: 'elsewhere.example', connection: 'close', 'content-length': '1', expect: '100-continue' }
    const given = { ...headers, 'transfer-encoding': 'chunked', upgrade: 'websocket', 'x-mine': 'kept' }
    const response = await createFetch()(origin, { method: 'POST', body: 'hello', headers: given })
    const seen = await response.json()
    expect(seen).toMatchObject({ host: new URL(origin).host, 'content-length': '5', 'x-mine': 'kept' })
    for (const name of ['expect', 'transfer-encoding', 'upgrade']) expect(seen).not.toHaveProperty(name)
  })

  test.each([301, 302, 303, 307, 308])('returns a %d without following it', async (status) => {
    const seen: (string | undefined)[] = []
    const origin = await serve((request, response) => {
      seen.push(request.url)
      response.writeHead(status, { location: '/elsewhere' }).end('moved')
    })
    const safeFetch = createFetch()
    for (const redirect of ['follow', 'manual', 'error'] as const) {
      const response = await safeFetch(`${origin}/start`, { redirect, headers: { authorization: 'secret' } })
      expect([response.status, response.headers.get('location')]).toEqual([status, '/elsewhere'])
    }
    expect(seen).toEqual(['/start', '/start', '/start'])
  })

  test('reuses the connection and the resolved address', async () => {
    const ports = new Set<number | undefined>()
    const origin = await serve((request, response) => {
      ports.add(request.socket.remotePort)
      response.end('ok')
    })
    const lookup = resolveTo(['127.0.0.1'])
    const safeFetch = createFetch({ lookup })
    for (let index = 0; index < 5; index++) {
      await safeFetch(origin.replace('127.0.0.1', 'name.test'))
      // undici reuses a connection one turn of the event loop after its last response.
      await setImmediate()
    }
    expect(ports.size).toBe(1)
    expect(lookup).toHaveBeenCalledTimes(1)
  })
})

describe('limits', () => {
  test('times out on a server that does not respond', async () => {
    const origin = await serve(() => {})
    await expect(createFetch({ timeoutMs: 50 })(origin)).rejects.toMatchObject({ reason: 'timeout' })
  })

  test('times out on a body that trickles', async () => {
    const origin = await serve((_request, response) => {
      const timer = setInterval(() => response.write('.'), 5)
      response.on('close', () => clearInterval(timer))
    })
    await expect(createFetch({ timeoutMs: 50 })(origin)).rejects.toMatchObject({ reason: 'timeout' })
  })

  test('times out on a name that never resolves', async () => {
    const safeFetch = createFetch({ timeoutMs: 50, lookup: () => {} })
    await expect(safeFetch('https://name.test/')).rejects.toMatchObject({ reason: 'timeout' })
  })

  test('times out on a TLS handshake that never ends', async () => {
    const server = createTcpServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
    await expect(createFetch({ timeoutMs: 50 })(url)).rejects.toMatchObject({ reason: 'timeout' })
  })

  test('accepts a body of the maximum size and rejects a larger one', async () => {
    const origin = await serve((request, response) => response.end('x'.repeat(Number(request.url?.slice(1)))))
    const safeFetch = createFetch({ maxBytes: 100_000 })
    expect(await (await safeFetch(`${origin}/100000`)).text()).toHaveLength(100_000)
    await expect(safeFetch(`${origin}/100001`)).rejects.toMatchObject({ reason: 'too_large' })
  })

  test('stops an endless body and closes its connection', async () => {
    const closed = Promise.withResolvers<void>()
    const origin = await serve((_request, response) => {
      const chunk = Buffer.alloc(64 * 1024)
      const fill = () => {
        while (response.write(chunk));
      }
      response.on('drain', fill).on('close', closed.resolve)
      fill()
    })
    await expect(createFetch()(origin)).rejects.toMatchObject({ reason: 'too_large' })
    await closed.promise
  })

  test.each(['gzip', 'gzip, gzip'])('stops a decompression bomb with %s', async (encoding) => {
    let bomb = gzipSync(Buffer.alloc(16 * 1024 * 1024))
    if (encoding === 'gzip, gzip') bomb = gzipSync(bomb)
    expect(bomb.byteLength).toBeLessThan(1024 * 1024)
    const origin = await serve((_request, response) => response.setHeader('content-encoding', encoding).end(bomb))
    await expect(createFetch()(origin)).rejects.toMatchObject({ reason: 'too_large' })
  })

  test('stops when the caller aborts, with the caller’s reason', async () => {
    const controller = new AbortController()
    const origin = await serve(() => controller.abort(new Error('changed my mind')))
    const safeFetch = createFetch()
    await expect(safeFetch(origin, { signal: controller.signal })).rejects.toThrow('changed my mind')
    await expect(safeFetch(new Request(origin, { signal: controller.signal }))).rejects.toThrow('changed my mind')
  })
})

describe('a stream', () => {
  /** A server that writes on demand, and reports when its connection closes. */
  async function startStream() {
    const closed = Promise.withResolvers<void>()
    const opened = Promise.withResolvers<ServerResponse>()
    const origin = await serve((_request, response) => {
      response.on('close', closed.resolve)
      response.write('one')
      opened.resolve(response)
    })
    return { origin, opened: opened.promise, closed: closed.promise }
  }

  const read = (response: Response) => {
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    return { reader, next: async () => Buffer.from((await reader.read()).value ?? []).toString() }
  }

  test('delivers each chunk as it arrives', async () => {
    const { origin, opened } = await startStream()
    const { next, reader } = read(await createFetch({ streamIdleMs: 5_000 })(origin))
    expect(await next()).toBe('one')
    ;(await opened).write('two')
    expect(await next()).toBe('two')
    ;(await opened).end()
    expect(await reader.read()).toEqual({ done: true, value: undefined })
  })

  test('otherwise behaves like a whole body', async () => {
    const safeFetch = createFetch({ streamIdleMs: 5_000 })
    const origin = await serve((request, response) => {
      if (request.url === '/moved') response.writeHead(302, { location: '/elsewhere' }).end()
      else if (request.url === '/empty') response.writeHead(204).end()
      else response.setHeader('content-encoding', 'gzip').end(gzipSync('packed'))
    })
    const packed = await safeFetch(origin)
    expect([await packed.text(), packed.headers.has('content-encoding')]).toEqual(['packed', false])
    const moved = await safeFetch(`${origin}/moved`)
    expect([moved.status, moved.headers.get('location')]).toEqual([302, '/elsewhere'])
    expect((await safeFetch(`${origin}/empty`)).body).toBeNull()
    const strict = createFetch({ streamIdleMs: 5_000, allowedPrivateNetworks: [] })
    await expect(strict(origin)).rejects.toMatchObject({ reason: 'blocked_address' })
  })

  test('fails and closes its connection when it gets too large', async () => {
    const { origin, opened, closed } = await startStream()
    const { next } = read(await createFetch({ streamIdleMs: 5_000, maxBytes: 5 })(origin))
    expect(await next()).toBe('one')
    ;(await opened).write('two')
    await expect(next()).rejects.toMatchObject({ reason: 'too_large' })
    await closed
  })

  test('fails when it pauses for too long', async () => {
    const { origin, closed } = await startStream()
    const { next } = read(await createFetch({ streamIdleMs: 50 })(origin))
    expect(await next()).toBe('one')
    await expect(next()).rejects.toMatchObject({ reason: 'timeout', message: expect.stringContaining('50 ms') })
    await closed
  })

  test('fails when it does not begin in time', async () => {
    const origin = await serve(() => {})
    await expect(createFetch({ streamIdleMs: 50 })(origin)).rejects.toMatchObject({ reason: 'timeout' })
  })

  test('fails when it takes too long in total', async () => {
    const closed = Promise.withResolvers<void>()
    const origin = await serve((_request, response) => {
      const timer = setInterval(() => response.write('.'), 5)
      response.on('close', () => closed.resolve(clearInterval(timer)))
    })
    const response = await createFetch({ streamIdleMs: 5_000, timeoutMs: 100 })(origin)
    await expect(response.text()).rejects.toMatchObject({
      reason: 'timeout',
      message: expect.stringContaining('100 ms'),
    })
    await closed.promise
  })

  test('fails when it breaks off', async () => {
    const { origin, opened } = await startStream()
    const { next } = read(await createFetch({ streamIdleMs: 5_000 })(origin))
    await next()
    ;(await opened).destroy()
    await expect(next()).rejects.toMatchObject({ reason: 'connection' })
  })

  test('closes its connection when the caller aborts', async () => {
    const { origin, closed } = await startStream()
    const controller = new AbortController()
    const { next } = read(await createFetch({ streamIdleMs: 5_000 })(origin, { signal: controller.signal }))
    await next()
    const pending = next()
    controller.abort(new Error('changed my mind'))
    await expect(pending).rejects.toThrow('changed my mind')
    await closed
  })

  test('closes its connection when the reader cancels, even while it waits for data', async () => {
    const { origin, closed } = await startStream()
    const { next, reader } = read(await createFetch({ streamIdleMs: 5_000 })(origin))
    await next()
    const pending = reader.read()
    await reader.cancel()
    expect(await pending).toEqual({ done: true, value: undefined })
    await closed
  })
})

describe('failures', () => {
  test('reports a refused connection', async () => {
    const server = createTcpServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    server.close()
    await once(server, 'close')
    await expect(createFetch()(`http://127.0.0.1:${port}`)).rejects.toMatchObject({
      reason: 'connection',
      message: expect.stringContaining('ECONNREFUSED'),
      cause: expect.any(Error),
    })
  })

  test.each([
    ['cut before the headers', ''],
    ['cut inside the body', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf'],
    ['not HTTP at all', 'SSH-2.0-OpenSSH\r\n'],
    ['an impossible status', 'HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n'],
  ])('reports a response that is %s', async (_name, answer) => {
    const server = createTcpServer((socket) => socket.once('data', () => socket.end(answer))).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await expect(createFetch()(url)).rejects.toMatchObject({ reason: 'connection' })
  })

  test('reports an untrusted certificate', async () => {
    const port = await serveTls((_request, response) => response.end('ok'))
    await expect(createFetch()(`https://127.0.0.1:${port}`)).rejects.toMatchObject({ reason: 'tls' })
  })

  test('reports a server that does not speak TLS', async () => {
    const origin = await serve((_request, response) => response.end('ok'))
    await expect(createFetch()(origin.replace('http:', 'https:'))).rejects.toMatchObject({ reason: 'tls' })
  })

  test('accepts a trusted certificate only for the URL’s host', async () => {
    const trusted = getCACertificates('default')
    onTestFinished(() => setDefaultCACertificates(trusted))
    setDefaultCACertificates([cert])
    const port = await serveTls((_request, response) => response.end('ok'))
    const safeFetch = createFetch({ lookup: resolveTo(['127.0.0.1']) })

    expect(await (await safeFetch(`https://localhost:${port}`)).text()).toBe('ok')
    const headers = { host: 'localhost' }
    await expect(safeFetch(`https://other.test:${port}`, { headers })).rejects.toMatchObject({ reason: 'tls' })
  })
})
