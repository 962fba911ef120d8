import {
  writeBytes,
  writeDouble,
  writeDoubles,
  writeFixed64,
  writeFixed64s,
  writeInteger,
  writeMessage,
  writeText,
} from './protobuf.ts'

/**
 * OTLP's messages, opentelemetry-proto 1. They are sent as protobuf, because some receivers, such as Phoenix, don't
 * accept JSON. The numbers are those of the fields in the .proto files.
 */

/** Undefined values are left out. */
export type Attributes = Record<string, string | number | boolean | readonly string[] | undefined>

export interface Span {
  /** 16 bytes. */
  traceId: Uint8Array
  /** 8 bytes. */
  spanId: Uint8Array
  parentId: Uint8Array | undefined
  name: string
  kind: keyof typeof spanKinds
  /** Nanoseconds since 1970. */
  start: bigint
  end: bigint
  attributes: Attributes
  hasFailed: boolean
}

const spanKinds = { internal: 1, client: 3 }
const errorStatus = 2

export const encodeSpan = ({ traceId, spanId, parentId, name, kind, start, end, ...span }: Span): Buffer =>
  Buffer.concat([
    writeBytes(1, traceId),
    writeBytes(2, spanId),
    ...(parentId ? [writeBytes(4, parentId)] : []),
    writeText(5, name),
    writeInteger(6, spanKinds[kind]),
    writeFixed64(7, start),
    writeFixed64(8, end),
    ...writeAttributes(9, span.attributes),
    ...(span.hasFailed ? [writeMessage(15, [writeInteger(3, errorStatus)])] : []),
  ])

/** The body of a request to `/v1/traces`, from encoded spans. */
export const encodeTraces = (resource: Attributes, spans: readonly Uint8Array[]): Buffer =>
  writeMessage(1, inScope(resource, spans))

/** The values of one combination of attributes. */
export interface HistogramPoint {
  attributes: Attributes
  count: number
  sum: number
  min: number
  max: number
  /** How many values are up to each of the bounds, and how many are above all of them. */
  bucketCounts: number[]
}

export interface HistogramData {
  name: string
  unit: string
  description: string
  bounds: readonly number[]
  points: readonly HistogramPoint[]
}

const cumulative = 2

/** The body of a request to `/v1/metrics`. The values are those since `start`. */
export const encodeMetrics = (
  resource: Attributes,
  histograms: readonly HistogramData[],
  { start, now }: { start: bigint; now: bigint },
): Buffer =>
  writeMessage(
    1,
    inScope(
      resource,
      histograms.map(({ name, unit, description, bounds, points }) =>
        Buffer.concat([
          writeText(1, name),
          writeText(2, description),
          writeText(3, unit),
          writeMessage(9, [
            ...points.map((point) => writeMessage(1, writePoint(point, bounds, start, now))),
            writeInteger(2, cumulative),
          ]),
        ]),
      ),
    ),
  )

const writePoint = (
  { attributes, count, sum, min, max, bucketCounts }: HistogramPoint,
  bounds: readonly number[],
  start: bigint,
  now: bigint,
): Buffer[] => [
  writeFixed64(2, start),
  writeFixed64(3, now),
  writeFixed64(4, BigInt(count)),
  writeDouble(5, sum),
  writeFixed64s(6, bucketCounts),
  writeDoubles(7, bounds),
  ...writeAttributes(9, attributes),
  writeDouble(11, min),
  writeDouble(12, max),
]

const scope = writeMessage(1, [writeText(1, 'inlay')])

/** Spans and metrics are nested alike: in a resource, and in the scope that produced them. */
const inScope = (resource: Attributes, entries: readonly Uint8Array[]): Buffer[] => [
  writeMessage(1, writeAttributes(1, resource)),
  writeMessage(2, [scope, ...entries.map((entry) => writeBytes(2, entry))]),
]

const writeAttributes = (field: number, attributes: Attributes): Buffer[] =>
  Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [writeMessage(field, [writeText(1, key), writeMessage(2, [writeValue(value)])])],
  )

function writeValue(value: NonNullable<Attributes[string]>): Buffer {
  if (typeof value === 'string') return writeText(1, value)
  if (typeof value === 'boolean') return writeInteger(2, Number(value))
  if (typeof value === 'number') return writeInteger(3, value)
  return writeMessage(
    5,
    value.map((each) => writeMessage(1, [writeText(1, each)])),
  )
}
