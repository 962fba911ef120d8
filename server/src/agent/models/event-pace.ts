import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createLineReader, mostBytesAtOnce } from '../../kernel/net/event-lines.ts'
import { isAlike, joinEvents, type TextEvent, writeEvents } from './join-events.ts'

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

/**
 * Takes a reply's text directly, where the AI SDK would only pass it on. Its streams, and its check of each event, took a
 * quarter of the server's time; see the agent in bench/README.md.
 */
export interface TextListener {
  /** Whether the text that the AI SDK has passed on so far ends with `text`. */
  endsWith(text: string): boolean
  take(text: string): void
}

/** The listener of the request that is being made. It is passed on here, because the AI SDK has no place for it. */
export const textListeners = new AsyncLocalStorage<TextListener | undefined>()

/** Reads the event streams of models in turn. The more of them send, the longer the pauses between two reads of each. */
export interface EventPace {
  /**
   * Passes a stream on. Text that has arrived during a pause becomes one event. With a listener, events that only
   * continue the text go there instead.
   */
  follow(body: ReadableStream<Uint8Array>, listener?: TextListener): ReadableStream<Uint8Array>
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
    follow(body, listener) {
      const reader = body.getReader()
      const readChunk = createChunkReader(listener)
      /** The beginning of a reply doesn't wait. */
      let startedAt: number | undefined
      /** What the AI SDK gets next. */
      let rest: Uint8Array = new Uint8Array()

      async function read() {
        open.add(reader)
        try {
          const hasWaited = startedAt !== undefined && performance.now() - startedAt > longestPauseMs
          if (hasWaited) await waitForTurn()
          const result = await reader.read()
          startedAt ??= performance.now()
          if (result.done) open.delete(reader)
          return { ...result, hasWaited }
        } catch (error) {
          open.delete(reader)
          throw error
        }
      }

      return new ReadableStream<Uint8Array>(
        {
          async pull(controller) {
            if (rest.length > 0) await nextTurn()
            while (rest.length === 0) {
              const { done, value, hasWaited } = await read()
              if (done) return controller.close()
              rest = readChunk(value, hasWaited)
            }
            controller.enqueue(rest.subarray(0, mostBytesAtOnce))
            rest = rest.subarray(mostBytesAtOnce)
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

/** Returns a function that joins the events of a chunk and returns what isn't for the listener. */
function createChunkReader(listener: TextListener | undefined) {
  const readLines = createLineReader()
  /** The event at the end of what was passed on, if it adds text. */
  let last: TextEvent | undefined
  /** Whether the AI SDK takes the text of events like the last one for the reply's text. */
  let isReply = false

  /**
   * The text of a chunk that only continues the last event. What was passed on before must have left the AI SDK's
   * streams, which it does within one turn of the event loop.
   */
  function readContinuation([event, end, ...more]: readonly (TextEvent | string)[]): string | undefined {
    if (!listener || !last || typeof event !== 'object' || end !== '' || more.length > 0) return undefined
    if (!isAlike(event, last)) return undefined
    isReply ||= hasPassedOn(listener, last)
    return isReply ? readString(event.text) : undefined
  }

  return (chunk: Uint8Array, hasWaited: boolean): Uint8Array => {
    const { end, lines, beginning } = readLines(chunk)
    if (end.length + lines.length + beginning.length === 0) return end
    const events = joinEvents(lines)
    const hasWholeLines = end.length === 0 && beginning.length === 0
    const text = hasWholeLines && hasWaited ? readContinuation(events) : undefined
    if (text !== undefined) {
      listener?.take(text)
      return new Uint8Array()
    }
    const [event, blank] = events.slice(-2)
    const latest = beginning.length === 0 && blank === '' && typeof event === 'object' ? event : undefined
    isReply &&= latest !== undefined && isAlike(latest, last)
    last = latest
    return Buffer.concat([end, Buffer.from(writeEvents(events)), beginning])
  }
}

function hasPassedOn(listener: TextListener, { text }: TextEvent): boolean {
  const characters = readString(text)
  return characters !== undefined && characters !== '' && listener.endsWith(characters)
}

/** Undefined if JSON doesn't allow these characters between quotes. */
function readString(characters: string): string | undefined {
  try {
    return JSON.parse(`"${characters}"`)
  } catch {
    return undefined
  }
}
