import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { z } from 'zod'
import type { CallContents } from './contents.ts'
import type { ToolCallRecord as Shape } from './contract.ts'

export type ToolCallRecord = z.input<typeof Shape>

/** A record as a batch stores it. Times are milliseconds since 1970, which cost less to write on every call. */
export interface StoredCall extends Omit<ToolCallRecord, 'at' | 'approval_at'> {
  at: number
  approval_at: number | null
}

/** The audit event of a batch: its target is the batch's id. */
export const recordedAction = 'tool_calls.recorded'

export const batchLimits = {
  records: 5_000,
  bytes: 3 * 1024 * 1024,
  /** Between the start of the first call and the start of the last one, so that a search by time can stop early. */
  spanMs: 30 * 60_000,
}

/** A record takes about this much memory. */
const bytesPerRecord = 400
/** Of a new batch. It grows when more is needed. */
const smallBytes = 8 * 1024
/** A full batch with its last line. Such buffers are used again, since fresh memory is slow. */
const largeBytes = batchLimits.bytes + 64 * 1024
const mostFreeBuffers = 4
const freeBuffers: Buffer[] = []

/** Calls that are written together, as lines of JSON in memory outside the heap. */
export class Batch {
  readonly id: string
  readonly users = new Set<string>()
  count = 0
  bytes = 0
  firstAt = Number.POSITIVE_INFINITY
  lastAt = 0
  /** Lost records that the audit event of this batch reports. */
  lost = 0
  /** Of calls of organizations that keep contents. */
  readonly contents: CallContents[] = []
  /** What it counts for in the limits of memory: records, and contents by their size. */
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

  /** Returns what the call adds to the weight. */
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

  /** After this the batch is not used any more. */
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

/** The records of a batch, in the order in which the calls ended. */
export async function readRecords(compressed: Buffer): Promise<ToolCallRecord[]> {
  // A batch may exceed its limit by its last record.
  const lines = (await gunzip(compressed, { maxOutputLength: 2 * batchLimits.bytes })).toString().split('\n')
  return lines.slice(0, -1).map((line) => {
    const call: StoredCall = JSON.parse(line)
    return { ...call, at: toText(call.at), approval_at: call.approval_at === null ? null : toText(call.approval_at) }
  })
}

const toText = (ms: number) => new Date(ms).toISOString()
