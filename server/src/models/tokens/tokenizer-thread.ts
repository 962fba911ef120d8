// The thread that tokenizer.ts starts. It counts the tokens of texts, in the order in which they arrive.
import { parentPort } from 'node:worker_threads'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'

/** The tokenizer takes quadratic time for long runs without spaces, or of spaces, so they are interrupted. */
const interruptRuns = (text: string): string => text.replace(/\S{200}(?=\S)/g, '$& ').replace(/\s{200}(?=\s)/g, '$&.')

/** Text that looks like a special token is ordinary text here. */
const options = { disallowedSpecial: new Set<string>() }

parentPort?.on('message', (text: string) => {
  parentPort?.postMessage(countTokens(interruptRuns(text), options))
})
