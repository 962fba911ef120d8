/** Writes fields of protobuf messages: as much of the format as OTLP needs. */

const wireTypes = { varint: 0, fixed64: 1, bytes: 2 }

function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80)
  return Buffer.from([...bytes, rest])
}

const tag = (field: number, type: number): Buffer => varint(field * 8 + type)

/** For whole numbers from 0 on, and for enums. */
export const writeInteger = (field: number, value: number): Buffer =>
  Buffer.concat([tag(field, wireTypes.varint), varint(value)])

export const writeBytes = (field: number, value: Uint8Array): Buffer =>
  Buffer.concat([tag(field, wireTypes.bytes), varint(value.length), value])

export const writeText = (field: number, value: string): Buffer => writeBytes(field, Buffer.from(value))

export const writeMessage = (field: number, fields: readonly Uint8Array[]): Buffer =>
  writeBytes(field, Buffer.concat(fields))

export const writeDouble = (field: number, value: number): Buffer =>
  Buffer.concat([tag(field, wireTypes.fixed64), double(value)])

export const writeFixed64 = (field: number, value: bigint): Buffer =>
  Buffer.concat([tag(field, wireTypes.fixed64), fixed64(value)])

/** A repeated field of numbers, which has one tag for all. */
export const writeDoubles = (field: number, values: readonly number[]): Buffer =>
  writeMessage(field, values.map(double))

export const writeFixed64s = (field: number, values: readonly number[]): Buffer =>
  writeMessage(
    field,
    values.map((value) => fixed64(BigInt(value))),
  )

function double(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return bytes
}

function fixed64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}
