import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { z } from 'zod'
import type { CallContents } from './contents.ts'
import type { ToolCallRecord as Shape } from './contract.ts'

export type ToolCallRecord = z.input<typeof Shape>

/** A record as stored in a batch. Times are milliseconds since 1970, which are cheaper to serialize. */
export interface StoredCall extends Omit<ToolCallRecord, 'at' | 'approval_at'> {
  at: number
  approval_at: number | null
}

/** Action of a batch's audit event, whose target is the batch's ID. */
export const recordedAction = 'tool_calls.recorded'

export const batchLimits = {
  records: 5_000,
  bytes: 3 * 1024 * 1024,
  /** Maximum time between the first and the last start of a call, so that a search by time can stop early. */
  spanMs: 30 * 60_000,
}

/** Approximate memory per record. */
const bytesPerRecord = 400
/** Initial buffer size of a batch. */
const smallBytes = 8 * 1024
/** Buffer size of a full batch. Buffers of this size are reused, because allocating new memory is slow. */
const largeBytes = batchLimits.bytes + 64 * 1024
const mostFreeBuffers = 4
const freeBuffers: Buffer[] = []

/** Calls that are written together, as JSON Lines in memory outside the heap. */
export class Batch {
  readonly id: string
  readonly users = new Set<string>()
  count = 0
  bytes = 0
  firstAt = Number.POSITIVE_INFINITY
  lastAt = 0
  /** Number of lost records that this batch's audit event reports. */
  lost = 0
  /** Empty unless the organization keeps contents. */
  readonly contents: CallContents[] = []
  /** Weight in the memory limits: one per record, plus contents by their size. */
  weight = 0
  #contentBytes = 0
  #lines: Buffer = Buffer.allocUnsafeSlow(smallBytes)

  constructor(id: string) {
    this.id = id
  }

  hasRoomFor({ at }: StoredCall): boolean {
    const span = Math.max(this.lastAt, at) - Math.min(this.firstAt, at)
    return (
      this.count < batchLimits.records &&
      this.bytes + this.#contentBytes < batchLimits.bytes &&
      span <= batchLimits.spanMs
    )
  }

  /** Returns the weight that the call adds. */
  add(call: StoredCall, contents: CallContents | undefined): number {
    const line = `${JSON.stringify(call)}\n`
    this.#makeRoom(line.length * 3)
    this.bytes += this.#lines.write(line, this.bytes)
    this.count += 1
    this.users.add(call.user_id)
    this.firstAt = Math.min(this.firstAt, call.at)
    this.lastAt = Math.max(this.lastAt, call.at)
    if (!contents) return this.#weigh(1)
    this.contents.push(contents)
    const bytes = 2 * (contents.arguments.length + (contents.result?.length ?? 0))
    this.#contentBytes += bytes
    return this.#weigh(1 + Math.ceil(bytes / bytesPerRecord))
  }

  compress = (): Promise<Buffer> => gzip(this.#lines.subarray(0, this.bytes), { level: 1 })

  #weigh(weight: number): number {
    this.weight += weight
    return weight
  }

  /** Returns the buffer for reuse. The batch must not be used afterwards. */
  release(): void {
    const isReusable = this.#lines.length === largeBytes && freeBuffers.length < mostFreeBuffers
    if (isReusable) freeBuffers.push(this.#lines)
  }

  #makeRoom(bytes: number): void {
    const needed = this.bytes + bytes
    if (needed <= this.#lines.length) return
    const wanted = 4 * this.#lines.length
    const size = needed > largeBytes ? 2 * needed : Math.max(needed, Math.min(wanted, largeBytes))
    const larger = (size === largeBytes && freeBuffers.pop()) || Buffer.allocUnsafeSlow(size)
    this.#lines.copy(larger, 0, 0, this.bytes)
    this.#lines = larger
  }
}

const gzip = promisify<zlib.InputType, zlib.ZlibOptions, Buffer>(zlib.gzip)
const gunzip = promisify<zlib.InputType, zlib.ZlibOptions, Buffer>(zlib.gunzip)

/** Reads the records of a batch, in the order in which the calls ended. */
export async function readRecords(compressed: Buffer): Promise<ToolCallRecord[]> {
  // The last record may exceed the batch's size limit.
  const lines = (await gunzip(compressed, { maxOutputLength: 2 * batchLimits.bytes })).toString().split('\n')
  return lines.slice(0, -1).map((line) => {
    const call: StoredCall = JSON.parse(line)
    return { ...call, at: toText(call.at), approval_at: call.approval_at === null ? null : toText(call.approval_at) }
  })
}

const toText = (ms: number) => new Date(ms).toISOString()
