// Keeps servers that send event streams from blocking this one: the parser of the AI SDK and the MCP SDK takes very long
// for some streams.

import { setImmediate as nextTurn } from 'node:timers/promises'

/** The SDKs read all events that they get at once before anything else on the server runs. */
export const mostBytesAtOnce = 8 * 1024

const newline = 0x0a
const carriageReturn = 0x0d

/**
 * Returns a function that ends all lines of a stream, chunk by chunk, with LF instead of CR or CR LF. If a chunk contains
 * a CR, the parser searches it to its end for each line.
 */
function createLineEnds(): (chunk: Uint8Array) => Uint8Array {
  let previous = 0
  return (chunk) => {
    if (previous !== carriageReturn && !chunk.includes(carriageReturn)) return chunk
    const lines = new Uint8Array(chunk.length)
    let length = 0
    for (const byte of chunk) {
      if (byte !== newline || previous !== carriageReturn) {
        lines[length] = byte === carriageReturn ? newline : byte
        length += 1
      }
      previous = byte
    }
    return lines.subarray(0, length)
  }
}

/** A line that means something, perhaps after a byte order mark. */
const eventLine = /^\ufeff?(?:data|event|id):/

/**
 * Drops comments and unknown fields from whole lines that end with LF. For each unknown field, the parser creates an error
 * with a stack trace.
 */
function dropOtherLines(lines: string): string {
  for (let start = 0; start < lines.length; start = lines.indexOf('\n', start) + 1) {
    if (lines.startsWith('data:', start) || lines.startsWith('event:', start) || lines[start] === '\n') continue
    return lines
      .split('\n')
      .filter((line) => line === '' || eventLine.test(line))
      .join('\n')
  }
  return lines
}

/** Returns a function that reads a chunk: the end of a line that began earlier, whole lines, and the beginning of a line. */
export function createLineReader(): (chunk: Uint8Array) => { end: Buffer; lines: string; beginning: Buffer } {
  const endLines = createLineEnds()
  let startsLine = true
  return (received) => {
    const chunk = endLines(received)
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    const from = startsLine ? 0 : bytes.indexOf(newline) + 1
    const to = bytes.lastIndexOf(newline) + 1
    if (bytes.length > 0) startsLine = to === bytes.length
    const lines = dropOtherLines(bytes.toString('utf8', from, to))
    return { end: bytes.subarray(0, from), lines, beginning: bytes.subarray(to) }
  }
}

/** Replaces the body of an event stream with one that can't block the server. */
export function readInParts(response: Response): Response {
  const { body, headers, status, statusText } = response
  if (!body || !/^text\/event-stream\s*(?:;|$)/i.test(headers.get('content-type') ?? '')) return response
  const readLines = createLineReader()
  const parts = new TransformStream<Uint8Array, Uint8Array>({
    async transform(chunk, controller) {
      const { end, lines, beginning } = readLines(chunk)
      const bytes = Buffer.concat([end, Buffer.from(lines), beginning])
      for (let from = 0; from < bytes.length; from += mostBytesAtOnce) {
        if (from > 0) await nextTurn()
        controller.enqueue(bytes.subarray(from, from + mostBytesAtOnce))
      }
    },
  })
  return new Response(body.pipeThrough(parts), { headers, status, statusText })
}
