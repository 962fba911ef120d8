import { joinEvents } from './join-events.ts'

/**
 * All streams together are read about this often per second. A read costs far more than an event, because what it
 * returns passes through several streams and is written to a socket; see the agent in bench/README.md.
 */
const readsPerSecond = 2_500
/** How long a stream waits for its turn. With more than 300 streams, more are read. */
const longestPauseMs = 120
const turnMs = 2
/** A turn doesn't make up for more lost time than this, because everything else on the server waits for it. */
const longestTurnMs = 10

/** Reads the event streams of models in turn. The more of them send, the longer the pauses between two reads of each. */
export interface EventPace {
  /** Passes a stream on. Text that has arrived during a pause becomes one event. */
  follow(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array>
}

export function createEventPace(): EventPace {
  const open = new Set<ReadableStreamDefaultReader<Uint8Array>>()
  const queue: (() => void)[] = []
  let turnedAt = 0

  function waitForTurn(): Promise<void> {
    if (queue.length === 0) {
      turnedAt = performance.now()
      setTimeout(takeTurn, turnMs)
    }
    return new Promise((resolve) => queue.push(resolve))
  }

  function takeTurn(): void {
    const ms = Math.min(performance.now() - turnedAt, longestTurnMs)
    turnedAt = performance.now()
    const readsPerMs = Math.max(readsPerSecond / 1000, open.size / longestPauseMs)
    for (const resume of queue.splice(0, Math.ceil(ms * readsPerMs))) resume()
    if (queue.length > 0) setTimeout(takeTurn, turnMs)
  }

  return {
    follow(body) {
      const reader = body.getReader()
      const join = createLineJoiner()
      /** The beginning of a reply doesn't wait. */
      let startedAt: number | undefined

      async function read() {
        open.add(reader)
        try {
          if (startedAt !== undefined && performance.now() - startedAt > longestPauseMs) await waitForTurn()
          const result = await reader.read()
          startedAt ??= performance.now()
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
