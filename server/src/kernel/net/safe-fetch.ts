import { type LookupAddress, type LookupAllOptions, lookup as systemLookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { pipeline, type Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { constants, createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import ipaddr from 'ipaddr.js'
import { Agent, buildConnector, request as sendRequest } from 'undici'

type IpAddress = ipaddr.IPv4 | ipaddr.IPv6
type Network = [IpAddress, number]

export type SafeFetchReason = 'invalid_url' | 'blocked_address' | 'dns' | 'tls' | 'timeout' | 'too_large' | 'connection'

export class SafeFetchError extends Error {
  override readonly name = 'SafeFetchError'
  readonly reason: SafeFetchReason

  constructor(reason: SafeFetchReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

export type LookupAll = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/**
 * This computer and private networks: what an address that the operator configured may reach, over plain http too. A
 * credential isn't sent anywhere else without TLS.
 */
export const privateNetworks = [
  ...['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10'],
  ...['::1/128', 'fc00::/7'],
]

export type SafeFetchOptions = {
  /** CIDRs of private networks that requests may reach, also over plain http. */
  allowedPrivateNetworks: readonly string[]
  /** Limits the whole request: name resolution, connection, headers and body. */
  timeoutMs?: number
  /** Limits the response body after decompression. */
  maxBytes?: number
  /** Streams the body, within the same limits, and fails if it pauses for longer than this. */
  streamIdleMs?: number
  lookup?: LookupAll
}

interface SafeFetchInit extends RequestInit {
  /** Called with the reason when a streamed body breaks off, because not every reader passes it on. */
  onBroken?: ((reason: unknown) => void) | undefined
}

export interface SafeFetch {
  (input: string | URL | Request, init?: SafeFetchInit): Promise<Response>
  close(): Promise<void>
}

/** A `fetch` for untrusted addresses: it only reaches public hosts, and limits time and size. */
export function createSafeFetch({
  allowedPrivateNetworks,
  timeoutMs = 5_000,
  maxBytes = 1024 * 1024,
  streamIdleMs,
  lookup = systemLookup,
}: SafeFetchOptions): SafeFetch {
  const allowed = allowedPrivateNetworks.map((cidr): Network => ipaddr.parseCIDR(cidr))
  const agent = new Agent({ connect: createConnector(allowed, lookup, timeoutMs), allowH2: false })

  const safeFetch = async (input: string | URL | Request, init?: SafeFetchInit) => {
    const url = parseUrl(input instanceof Request ? input.url : input)
    const callerSignal = init?.signal ?? (input instanceof Request ? input.signal : null)
    const deadline = AbortSignal.timeout(timeoutMs)
    const stop = new AbortController()
    const signal = AbortSignal.any([...(callerSignal ? [callerSignal] : []), deadline, stop.signal])
    const explain = (error: unknown) => {
      if (callerSignal?.aborted && signal.reason === callerSignal.reason) return callerSignal.reason
      if (signal.reason instanceof SafeFetchError) return signal.reason
      return deadline.aborted ? explainTimeout(url.host, timeoutMs, error) : explainFailure(url.host, error)
    }
    const step: Step = (work) => limitStep(work, explain, stop, url.host, streamIdleMs)
    return step(async () => {
      const {
        statusCode: status,
        statusText,
        headers,
        body,
      } = await sendRequest(url, {
        ...(await readRequest(input, init)),
        signal,
        dispatcher: agent,
      })
      if (hasNoBody.has(status)) {
        await body.dump()
        return new Response(null, { status, statusText, headers: readHeaders(headers) })
      }
      const decoded = decode(body, headers['content-encoding'])
      const limit = limitSize(maxBytes, url.host)
      const read =
        streamIdleMs === undefined
          ? await readAll(decoded, limit)
          : streamBody(decoded, limit, step, stop, init?.onBroken)
      return new Response(read, { status, statusText, headers: readHeaders(headers) })
    })
  }
  return Object.assign(safeFetch, { close: () => agent.close() })
}

function parseUrl(input: string | URL): URL {
  const url = URL.parse(String(input))
  if (!url) throw new SafeFetchError('invalid_url', 'The URL is malformed')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new SafeFetchError('invalid_url', `The URL must start with https://, not ${url.protocol}`)
  }
  if (url.username || url.password) {
    throw new SafeFetchError('invalid_url', 'The URL must not contain a user name or a password')
  }
  return url
}

const encoder = new TextEncoder()

/** The platform's Request handles every type of body and sets its content type. */
async function readRequest(input: string | URL | Request, init: RequestInit | undefined) {
  const text = typeof init?.body === 'string' ? init.body : undefined
  const request = new Request(input, { ...init, ...(text !== undefined && { body: '' }), signal: null })
  // undici would put a text into Node's pool of buffers, and keep 64 KB of it until the response has been read.
  const body = text === undefined ? request.body && Buffer.from(await request.arrayBuffer()) : encoder.encode(text)
  const given = [...request.headers].filter(([name]) => !ofConnection.has(name))
  const headers = { 'accept-encoding': 'gzip, br', 'user-agent': 'inlay', ...Object.fromEntries(given) }
  return { method: request.method as 'GET', headers, body }
}

/** Set from the URL and the body. undici would check the certificate against a different `host`. */
const ofConnection = new Set([
  ...['host', 'connection', 'keep-alive', 'upgrade', 'expect', 'te', 'trailer'],
  ...['content-length', 'transfer-encoding'],
])

const hasNoBody = new Set([204, 205, 304])

/** Like browsers, tolerates a truncated stream, because some servers declare an encoding for an empty body. */
const decoders = new Map([
  ['gzip', () => createGunzip({ finishFlush: constants.Z_SYNC_FLUSH })],
  ['x-gzip', () => createGunzip({ finishFlush: constants.Z_SYNC_FLUSH })],
  ['deflate', () => createInflate({ finishFlush: constants.Z_SYNC_FLUSH })],
  ['br', () => createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH })],
])
const mostEncodings = 5

/** Passes a body with an unknown encoding through unchanged. */
function decode(body: Readable, contentEncoding: string | string[] = ''): Readable {
  const encodings = String(contentEncoding)
    .toLowerCase()
    .split(',')
    .map((each) => each.trim())
    .filter(Boolean)
  if (encodings.length > mostEncodings) throw new Error('too many content encodings')
  const streams = encodings.reverse().map((encoding) => decoders.get(encoding)?.())
  const known = streams.filter((stream) => stream !== undefined)
  if (known.length === 0 || known.length < streams.length) return body
  // The last stream reports the failures of every stream.
  return pipeline([body, ...known], () => undefined) as unknown as Readable
}

/** Runs one asynchronous part of a request. */
type Step = <T>(work: () => Promise<T>) => Promise<T>

/** Aborts the request when a step fails or takes longer than `idleMs`, and explains why. */
async function limitStep<T>(
  work: () => Promise<T>,
  explain: (error: unknown) => unknown,
  stop: AbortController,
  host: string,
  idleMs: number | undefined,
): Promise<T> {
  const giveUp = () => stop.abort(new SafeFetchError('timeout', `${host} sent nothing for ${idleMs} ms`))
  const timer = idleMs === undefined ? undefined : setTimeout(giveUp, idleMs)
  try {
    return await work()
  } catch (error) {
    const reason = explain(error)
    stop.abort(reason)
    throw reason
  } finally {
    clearTimeout(timer)
  }
}

/** Returns a function that counts a body's bytes. */
function limitSize(maxBytes: number, host: string): <T extends Uint8Array>(chunk: T) => T {
  let size = 0
  return (chunk) => {
    size += chunk.byteLength
    if (size > maxBytes) throw new SafeFetchError('too_large', `${host} sent more than ${maxBytes} bytes`)
    return chunk
  }
}

type Limit = ReturnType<typeof limitSize>

async function readAll(body: AsyncIterable<Uint8Array>, limit: Limit) {
  const read: Uint8Array[] = []
  for await (const chunk of body) read.push(limit(chunk))
  return Buffer.concat(read)
}

/** Canceling the stream aborts the request, even while it waits for the next chunk. */
function streamBody(
  body: Readable,
  limit: Limit,
  step: Step,
  stop: AbortController,
  onBroken: SafeFetchInit['onBroken'],
) {
  const read = createChunkReader(body)
  const next = async () => {
    const chunk = await read()
    return chunk && limit(chunk)
  }
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const chunk = await step(next)
          if (chunk) controller.enqueue(chunk)
          else controller.close()
        } catch (reason) {
          onBroken?.(reason)
          throw reason
        }
      },
      cancel: (reason) => stop.abort(reason),
    },
    // Reads, and counts pauses, only while the consumer asks for data.
    { highWaterMark: 0 },
  )
}

/** Reads everything that has arrived at once, which an async iterator doesn't. Returns undefined at the end. */
function createChunkReader(body: Readable): () => Promise<Buffer | undefined> {
  let wake = () => {}
  body.on('readable', () => wake())
  const closed = finished(body)
  closed.catch(() => undefined).finally(() => wake())
  return async () => {
    for (;;) {
      const chunks: Buffer[] = []
      for (let chunk = body.read(); chunk !== null; chunk = body.read()) chunks.push(chunk)
      if (chunks.length > 0) return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)
      if (body.readableEnded || body.destroyed) {
        await closed
        return undefined
      }
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
}

/** Omits the headers that describe the bytes on the wire, because the caller gets the decoded body. */
function readHeaders(source: Record<string, string | string[] | undefined>): Headers {
  const headers = new Headers()
  for (const [name, value = []] of Object.entries(source)) for (const each of [value].flat()) headers.append(name, each)
  for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) headers.delete(name)
  return headers
}

/**
 * Checks the resolved addresses that the socket then connects to, so that a name that resolves differently a moment
 * later (DNS rebinding) can't bypass the check.
 */
function createConnector(allowed: Network[], lookup: LookupAll, timeout: number): buildConnector.connector {
  const connectorFor = (protocol: string) => {
    const checkedLookup: LookupFunction = (hostname, options, callback) =>
      lookup(hostname, { ...options, all: true }, (error, addresses) => {
        const failure = error ? explainDnsFailure(hostname, error) : refuse(protocol, hostname, addresses, allowed)
        callback(failure, failure ? [] : addresses)
      })
    // With `autoSelectFamily` the socket always asks the lookup for a list.
    return buildConnector({ lookup: checkedLookup, autoSelectFamily: true, allowH2: false, timeout })
  }
  const connectHttp = connectorFor('http:')
  const connectHttps = connectorFor('https:')

  return (options, callback) => {
    const { protocol, hostname } = options
    // Sockets don't call `lookup` for a literal address.
    const failure = isIP(hostname) ? refuse(protocol, hostname, [{ address: hostname }], allowed) : null
    if (failure) throw failure
    return protocol === 'https:' ? connectHttps(options, callback) : connectHttp(options, callback)
  }
}

/** Puts the address in the cause, which is only logged, and not in the message, which organizations see. */
function refuse(protocol: string, host: string, addresses: Pick<LookupAddress, 'address'>[], allowed: Network[]) {
  if (addresses.length === 0) return explainDnsFailure(host)
  const outside = addresses.map(({ address }) => address).filter((address) => !isAllowed(address, allowed))
  const blocked = outside.find((address) => !isPublic(address))
  if (blocked !== undefined) {
    const message = `${host} points to a private or reserved address, which this server does not allow`
    return new SafeFetchError('blocked_address', message, { cause: new Error(`${blocked} is not a public address`) })
  }
  if (protocol === 'http:' && outside.length > 0) {
    return new SafeFetchError('invalid_url', `${host} can only be reached with https://, not http://`)
  }
  return null
}

/**
 * Where cloud providers serve credentials and control messages: link-local addresses (AWS, Google, Azure and others),
 * Azure's wire server, Alibaba Cloud, Oracle Cloud, and the IPv6 addresses of AWS and Google.
 */
const cloudNetworks = [
  ...['169.254.0.0/16', '168.63.129.16/32', '100.100.100.200/32', '192.0.0.192/32'],
  ...['fd00:ec2::/32', 'fd20:ce::254/128'],
].map((cidr): Network => ipaddr.parseCIDR(cidr))

/** A network that the operator allows doesn't include cloud addresses, unless it consists of nothing else. */
function isAllowed(address: string, allowed: Network[]): boolean {
  const ip = parseAddress(address)
  if (!ip) return false
  const cloud = [ip, ...embeddedIpv4(ip)].flatMap((each) => cloudNetworks.filter((network) => isInside(each, network)))
  const isForCloud = ([network, bits]: Network) =>
    cloud.every((reserved) => bits >= reserved[1] && isInside(network, reserved))
  return allowed.some((network) => isInside(ip, network) && isForCloud(network))
}

const isInside = (ip: IpAddress, [network, bits]: Network): boolean =>
  network.kind() === ip.kind() && ip.match(network, bits)

const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3')
const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
/** Reserved ranges that the library doesn't know: protocol assignments, and documentation (RFC 9637). */
const reservedIpv6 = ['2001::/23', '3fff::/20'].map((cidr) => ipaddr.IPv6.parseCIDR(cidr))

function isPublic(address: string): boolean {
  const ip = parseAddress(address)
  if (!ip) return false
  if (ip instanceof ipaddr.IPv4) return isPublicIpv4(ip)
  const embedded = embeddedIpv4(ip)
  // Networks without IPv4 reach the IPv4 hosts of the Internet through this prefix.
  if (ip.match(nat64)) return embedded.every(isPublicIpv4)
  const isReserved = reservedIpv6.some((network) => ip.match(network))
  return ip.match(globalUnicast) && ip.range() === 'unicast' && !isReserved && embedded.length === 0
}

const isPublicIpv4 = (ip: ipaddr.IPv4): boolean =>
  ip.range() === 'unicast' && !cloudNetworks.some((network) => isInside(ip, network))

/** The IPv4 hosts that an IPv6 address may lead to through the known transition mechanisms. */
function embeddedIpv4(ip: IpAddress): ipaddr.IPv4[] {
  if (ip instanceof ipaddr.IPv4) return []
  const bytes = ip.toByteArray()
  const at = (start: number, flip = 0) => new ipaddr.IPv4(bytes.slice(start, start + 4).map((byte) => byte ^ flip))
  switch (ip.range()) {
    case '6to4':
      return [at(2)]
    case 'teredo':
      // The relay, and the client, which is stored inverted.
      return [at(4), at(12, 0xff)]
    case 'rfc6052':
      // With a 48-bit prefix, the IPv4 address may also follow the prefix, around byte 8 (RFC 6052, section 2.2).
      return ip.match(nat64) ? [at(12)] : [at(12), new ipaddr.IPv4([6, 7, 9, 10].map((index) => bytes[index] ?? 0))]
    case 'rfc6145':
      return [at(12)]
  }
  const isCompatible = bytes.slice(0, 12).every((byte) => byte === 0)
  // RFC 5214: ISATAP marks the interface with 00-00-5e-fe or 02-00-5e-fe, under any prefix.
  const isIsatap = ((bytes[8] ?? 0) & ~0x02) === 0 && bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe
  return isCompatible || isIsatap ? [at(12)] : []
}

/** Returns the IPv4 address for an IPv4-mapped IPv6 address. */
function parseAddress(address: string): IpAddress | null {
  return isIP(address) && ipaddr.isValid(address) ? ipaddr.process(address) : null
}

function explainDnsFailure(host: string, cause?: NodeJS.ErrnoException) {
  return new SafeFetchError('dns', `The name ${host} could not be resolved (${cause?.code ?? 'no address'})`, { cause })
}

function explainTimeout(host: string, timeoutMs: number, cause: unknown) {
  return new SafeFetchError('timeout', `${host} did not send a complete response within ${timeoutMs} ms`, { cause })
}

const tlsCode = /CERT|CRL|SSL|TLS|EPROTO|UNABLE_TO|INVALID_(CA|PURPOSE)|PATH_LENGTH|HOSTNAME_MISMATCH/

function explainFailure(host: string, error: unknown): SafeFetchError {
  const cause = error instanceof TypeError && error.cause instanceof Error ? error.cause : error
  if (cause instanceof SafeFetchError) return cause
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (tlsCode.test(code)) return new SafeFetchError('tls', `${host} has no valid TLS certificate (${code})`, { cause })
  if (code.includes('TIME')) return new SafeFetchError('timeout', `${host} did not respond in time`, { cause })
  const detail = code || (cause instanceof Error ? cause.message : String(cause))
  return new SafeFetchError('connection', `The request to ${host} failed (${detail})`, { cause })
}
