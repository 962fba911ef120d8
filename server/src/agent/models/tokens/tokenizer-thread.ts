// The thread that tokenizer.ts starts. It counts the tokens of texts, the shortest first.
import { parentPort } from 'node:worker_threads'
import { countTokens, setMergeCacheSize } from 'gpt-tokenizer/encoding/o200k_base'

export interface Asked {
  id: number
  text: string
}

export interface Counted {
  id: number
  count: number
}

// To add a word to its full cache, the tokenizer skips all words that were removed before. With its own limit of 100 000
// words, random text takes up to ten times as long.
setMergeCacheSize(1_000)

/** The tokenizer takes quadratic time for long runs without spaces, or of spaces, so they are interrupted. */
const interruptRuns = (text: string): string => text.replace(/\S{200}(?=\S)/g, '$& ').replace(/\s{200}(?=\s)/g, '$&.')

/** Text that looks like a special token is ordinary text here. */
const options = { disallowedSpecial: new Set<string>() }

const waiting: Asked[] = []

parentPort?.on('message', (asked: Asked) => {
  if (waiting.push(asked) === 1) setImmediate(countShortest)
})

/** Short texts overtake long ones, so that a message doesn't wait for the long texts of other organizations. */
function countShortest(): void {
  const next = waiting.sort((one, other) => one.text.length - other.text.length).shift()
  if (!next) return
  const counted: Counted = { id: next.id, count: countTokens(interruptRuns(next.text), options) }
  parentPort?.postMessage(counted)
  // In between, further texts arrive.
  if (waiting.length > 0) setImmediate(countShortest)
}
