import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ReceivedSpan {
  traceId: string
  spanId: string
  parentId?: string
  name: string
  kind: number
  start: bigint
  end: bigint
  attributes: Record<string, unknown>
  status?: { code: number }
}

export interface ReceivedMetric {
  name: string
  unit: string
  histogram: {
    temporality: number
    points: {
      attributes: Record<string, unknown>
      count: bigint
      sum: number
      min: number
      max: number
      counts: bigint[]
      bounds: number[]
    }[]
  }
}

type Answer = number | 'stall' | 'break'

/** An OpenTelemetry receiver that keeps what it gets. */
export interface Collector {
  url: string
  requests: { path: string; headers: Record<string, unknown>; body: Buffer }[]
  spans: ReceivedSpan[]
  /** As of the last request. */
  metrics: ReceivedMetric[]
  resource: Record<string, unknown>
  /** How it answers from now on: with a status, never, or by closing the connection. It keeps only what it accepts. */
  respond(answer: Answer, path?: string): void
  close(): void
}

export async function startCollector(): Promise<Collector> {
  const answers = new Map<string, Answer>()
  const collector: Omit<Collector, 'url'> = {
    requests: [],
    spans: [],
    metrics: [],
    resource: {},
    respond(answer, path) {
      for (const each of path ? [path] : ['/v1/traces', '/v1/metrics']) answers.set(each, answer)
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray())
    const path = request.url ?? ''
    collector.requests.push({ path, headers: request.headers, body })
    const answer = answers.get(path) ?? 200
    if (answer === 'break') return void request.socket.destroy()
    if (answer === 'stall') return
    if (answer === 200) keep(collector, path, body)
    response.writeHead(answer, { 'content-type': 'application/x-protobuf' }).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return Object.assign(collector, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
}

function keep(collector: Omit<Collector, 'url'>, path: string, body: Buffer): void {
  const data = decode(body, path === '/v1/traces' ? traces : metrics) as {
    resources?: { resource: { attributes: Attribute[] }; scopes: { entries: { attributes: Attribute[] }[] }[] }[]
  }
  for (const { resource, scopes } of data.resources ?? []) {
    collector.resource = readAttributes(resource.attributes)
    const entries = scopes.flatMap((scope) => scope.entries)
    if (path === '/v1/traces') {
      collector.spans.push(
        ...entries.map((span) => ({
          ...(span as object as ReceivedSpan),
          attributes: readAttributes(span.attributes),
        })),
      )
    } else {
      collector.metrics = (entries as object as ReceivedMetric[]).map((metric) => {
        const points = metric.histogram.points.map((point) => ({
          ...point,
          attributes: readAttributes(point.attributes as object as Attribute[]),
        }))
        return { ...metric, histogram: { ...metric.histogram, points } }
      })
    }
  }
}

interface Attribute {
  key: string
  value: { text?: string; isTrue?: number; integer?: number; list?: { values: { text: string }[] } }
}

const readAttributes = (attributes: readonly Attribute[] = []): Record<string, unknown> =>
  Object.fromEntries(
    attributes.map(({ key, value: { text, isTrue, integer, list } }) => [
      key,
      text ?? integer ?? list?.values.map((each) => each.text) ?? isTrue === 1,
    ]),
  )

/** A field's name, and its type: of a number, or the fields of a message. */
type Field = [name: string, type: 'text' | 'hex' | 'integer' | 'fixed64' | 'double' | Shape, isRepeated?: 'repeated']
interface Shape {
  [field: number]: Field
}

/** The fields that are used, with their numbers in opentelemetry-proto. */
const value: Shape = {
  1: ['text', 'text'],
  2: ['isTrue', 'integer'],
  3: ['integer', 'integer'],
  4: ['double', 'double'],
}
value[5] = ['list', { 1: ['values', value, 'repeated'] }]
const attributes: Field = ['attributes', { 1: ['key', 'text'], 2: ['value', value] }, 'repeated']
const inResource = (entry: Shape): Shape => ({
  1: [
    'resources',
    {
      1: ['resource', { 1: attributes }],
      2: ['scopes', { 1: ['scope', { 1: ['name', 'text'] }], 2: ['entries', entry, 'repeated'] }, 'repeated'],
    },
    'repeated',
  ],
})
const traces = inResource({
  1: ['traceId', 'hex'],
  2: ['spanId', 'hex'],
  4: ['parentId', 'hex'],
  5: ['name', 'text'],
  6: ['kind', 'integer'],
  7: ['start', 'fixed64'],
  8: ['end', 'fixed64'],
  9: attributes,
  15: ['status', { 2: ['message', 'text'], 3: ['code', 'integer'] }],
})
const point: Shape = {
  2: ['start', 'fixed64'],
  3: ['time', 'fixed64'],
  4: ['count', 'fixed64'],
  5: ['sum', 'double'],
  6: ['counts', 'fixed64', 'repeated'],
  7: ['bounds', 'double', 'repeated'],
  9: attributes,
  11: ['min', 'double'],
  12: ['max', 'double'],
}
const metrics = inResource({
  1: ['name', 'text'],
  2: ['description', 'text'],
  3: ['unit', 'text'],
  9: ['histogram', { 1: ['points', point, 'repeated'], 2: ['temporality', 'integer'] }],
})

/** Reads a protobuf message. Throws at fields that aren't in its shape. */
function decode(body: Buffer, shape: Shape): Record<string, unknown> {
  const message: Record<string, unknown> = {}
  let at = 0
  const varint = () => {
    let result = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = body.readUInt8(at++)
      result += (byte % 128) * factor
      if (byte < 128) return result
    }
  }
  const take = (length: number) => {
    at += length
    return body.subarray(at - length, at)
  }
  while (at < body.length) {
    const tag = varint()
    const field = shape[Math.floor(tag / 8)]
    if (!field) throw new Error(`Unknown field ${Math.floor(tag / 8)}`)
    const [name, type, isRepeated] = field
    const raw = [varint, () => take(8), () => take(varint())][tag % 8]?.()
    const read = decodeValue(raw as number | Buffer, type)
    message[name] = isRepeated ? [...((message[name] as unknown[]) ?? []), ...[read].flat()] : read
  }
  return message
}

function decodeValue(raw: number | Buffer, type: Field[1]): unknown {
  if (typeof raw === 'number') return raw
  if (type === 'text') return raw.toString()
  if (type === 'hex') return raw.toString('hex')
  if (typeof type === 'object') return decode(raw, type)
  const words = Array.from({ length: raw.length / 8 }, (_, index) =>
    type === 'double' ? raw.readDoubleLE(index * 8) : raw.readBigUInt64LE(index * 8),
  )
  return words.length === 1 ? words[0] : words
}
