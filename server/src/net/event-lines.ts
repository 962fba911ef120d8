// Keeps servers that send event streams from blocking this one: the parser of the AI SDK and the MCP SDK takes very long
// for some streams.

const newline = 0x0a
const carriageReturn = 0x0d

/**
 * Returns a function that ends all lines of a stream, chunk by chunk, with LF instead of CR or CR LF. If a chunk contains
 * a CR, the parser searches it to its end for each line.
 */
export function createLineEnds(): (chunk: Uint8Array) => Uint8Array {
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
export function dropOtherLines(lines: string): string {
  for (let start = 0; start < lines.length; start = lines.indexOf('\n', start) + 1) {
    if (lines.startsWith('data:', start) || lines.startsWith('event:', start) || lines[start] === '\n') continue
    return lines
      .split('\n')
      .filter((line) => line === '' || eventLine.test(line))
      .join('\n')
  }
  return lines
}
