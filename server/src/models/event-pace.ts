import { joinEvents } from './join-events.ts'

/**
 * All streams together are read about this often per second. A read costs far more than an event, because what it
 * returns passes through several streams and is written to a socket; see the agent in bench/README.md.
 */
const readsPerSecond = 2_000
const longestPauseMs = 150

/** Reads the event streams of models. The more there are, the longer it pauses between two reads of each. */
export interface EventPace {
  /** Passes a stream on. Text that has arrived during a pause becomes one event. */
  follow(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array>
}

export function createEventPace(): EventPace {
  const open = new Set<ReadableStreamDefaultReader<Uint8Array>>()

  return {
    follow(body) {
      const reader = body.getReader()
      const join = createLineJoiner()
      let startedAt: number | undefined
      let readAt = 0

      /** No longer than the stream has been open, so that the beginning of a reply arrives at once. */
      async function pause(): Promise<void> {
        startedAt ??= performance.now()
        const longest = Math.min((1000 / readsPerSecond) * open.size, longestPauseMs, readAt - startedAt)
        const ms = readAt + longest - performance.now()
        if (ms >= 1) await new Promise((resolve) => setTimeout(resolve, ms))
      }

      async function read() {
        open.add(reader)
        try {
          await pause()
          const result = await reader.read()
          readAt = performance.now()
          if (result.done) open.delete(reader)
          return result
        } catch (error) {
          open.delete(reader)
          throw error
        }
      }

      return new ReadableStream<Uint8Array>(
        {
          async pull(controller) {
            const { done, value } = await read()
            if (done) controller.close()
            else controller.enqueue(join(value))
          },
          cancel(reason) {
            open.delete(reader)
            return reader.cancel(reason)
          },
        },
        { highWaterMark: 0 },
      )
    },
  }
}

const newline = 0x0a

/** Returns a function that joins the events of a chunk. Incomplete lines stay as they are. */
function createLineJoiner(): (chunk: Uint8Array) => Uint8Array {
  let startsLine = true
  return (chunk) => {
    const start = startsLine ? 0 : chunk.indexOf(newline) + 1
    const end = chunk.lastIndexOf(newline) + 1
    startsLine = end === chunk.length
    if (end <= start) return chunk
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    const joined = joinEvents(bytes.toString('utf8', start, end))
    return Buffer.concat([bytes.subarray(0, start), Buffer.from(joined), bytes.subarray(end)])
  }
}
