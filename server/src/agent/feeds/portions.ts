import type { Chunk } from './chunks.ts'

/** About how many characters of JSON a message with chunks has at most, unless a single chunk has more. */
export const portionLength = 128 * 1024

/** Divides chunks into portions that can be sent one after the other. */
export function* portionsOf<Each extends Chunk>(chunks: readonly Each[]): Generator<Each[]> {
  let from = 0
  let length = 0
  for (const [index, chunk] of chunks.entries()) {
    const added = lengthOf(chunk)
    if (index > from && length + added > portionLength) {
      yield chunks.slice(from, index)
      from = index
      length = 0
    }
    length += added
  }
  if (from < chunks.length) yield chunks.slice(from)
}

/** Names, IDs and JSON's own characters. */
const frameLength = 200

/** Estimated, because only texts, arguments and results can be long. */
function lengthOf(chunk: Chunk): number {
  switch (chunk.type) {
    case 'text-delta':
      return frameLength + chunk.delta.length
    case 'tool-output-error':
      return frameLength + chunk.errorText.length
    case 'tool-output-available':
      return (
        frameLength + (typeof chunk.output === 'string' ? chunk.output.length : JSON.stringify(chunk.output).length)
      )
    case 'tool-input-available':
      return frameLength + JSON.stringify(chunk.input).length
    default:
      return frameLength + ('data' in chunk || 'parts' in chunk ? JSON.stringify(chunk).length : 0)
  }
}
