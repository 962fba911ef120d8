// Reads the event streams of models, so that a reply costs less than the AI SDK's parser and streams take for each of its
// tokens. docs/decisions/0031-which-speedups-stay.md has the figures. The streams take turns, and neighboring events that
// add text become one event before the parser sees them.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { createLineReader, mostBytesAtOnce } from '../../kernel/net/event-lines.ts'

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
      const readLines = createLineReader()
      /** The beginning of a reply doesn't wait. */
      let startedAt: number | undefined
      /** What the AI SDK gets next. */
      let rest: Uint8Array = new Uint8Array()

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
            if (rest.length > 0) await nextTurn()
            while (rest.length === 0) {
              const { done, value } = await read()
              if (done) return controller.close()
              const { end, lines, beginning } = readLines(value)
              rest = Buffer.concat([end, Buffer.from(joinEvents(lines)), beginning])
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

/** Where an event of OpenAI's or Anthropic's format begins to add text, in the middle of its JSON. */
const opening = /"delta": ?\{(?:"\w+": ?(?:"\w*"|null), ?)*"(?:content|text)": ?"/
/** The rest of a JSON string. */
const characters = /(?:[^"\\]|\\.)*/y
/** Random characters that OpenAI adds to hide the length of the text on the network. */
const padding = /, ?"obfuscation": ?"\w*"/

/** An event that adds text. Any other event is a string. */
interface TextEvent {
  before: string
  /** With JSON's escapes. */
  text: string
  after: string
}

/** Joins neighboring events that only differ in the text that they add. `lines` are whole lines of an event stream. */
export function joinEvents(lines: string): string {
  const joined: (TextEvent | string)[] = []
  for (const event of lines.split('\n\n')) {
    const last = joined.at(-1)
    const next = readText(event)
    if (next && isAlike(next, last)) last.text += next.text
    else joined.push(next ?? event)
  }
  return joined
    .map((event) => (typeof event === 'string' ? event : event.before + event.text + event.after))
    .join('\n\n')
}

const isAlike = (one: TextEvent, other: TextEvent | string | undefined): other is TextEvent =>
  typeof other === 'object' && one.before === other.before && one.after === other.after

function readText(event: string): TextEvent | undefined {
  const found = opening.exec(event)
  if (!found) return undefined
  const start = found.index + found[0].length
  characters.lastIndex = start
  characters.test(event)
  const end = characters.lastIndex
  return { before: event.slice(0, start), text: event.slice(start, end), after: event.slice(end).replace(padding, '') }
}
