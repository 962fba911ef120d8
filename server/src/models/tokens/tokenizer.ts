import { hash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'

/**
 * Counts of earlier texts by their hash: instructions, tools and the beginning of a conversation are the same in every
 * step, and a hash takes far less time than a count.
 */
const known = new LRUCache<string, Promise<number>>({ max: 10_000 })

/** Counts with OpenAI's tokenizer. Other models split text differently, so it's an estimate for them. */
export function countTokens(text: string): Promise<number> {
  const key = hash('sha256', text, 'base64')
  let count = known.get(key)
  if (!count) {
    count = tokenize(text)
    known.set(key, count)
    count.catch(() => known.delete(key))
  }
  return count
}

/** Counts a text that will be part of a prompt soon, so that the prompt needn't wait for it. */
export function countAhead(text: string): void {
  // The prompt's own count tries again and reports the error.
  countTokens(text).catch(() => undefined)
}

/**
 * The tokenizer is loaded when it's first needed, because its table takes many megabytes. That takes half a second, and
 * far longer on a busy machine: await this before a transaction that counts, or PostgreSQL may end the transaction.
 */
export async function loadTokenizer(): Promise<void> {
  await tokenize('')
}

/**
 * The tokenizer has a thread of its own, because its table contains 200 000 strings. On the main thread, loading them
 * blocks every request, and makes the pauses for garbage collection longer; see the agent in bench/README.md.
 */
interface Tokenizer {
  thread: Worker
  /** The thread responds in the order in which it was asked. */
  asked: PromiseWithResolvers<number>[]
}
let tokenizer: Tokenizer | undefined

function tokenize(text: string): Promise<number> {
  tokenizer ??= startTokenizer()
  const count = Promise.withResolvers<number>()
  tokenizer.asked.push(count)
  tokenizer.thread.ref()
  tokenizer.thread.postMessage(text)
  return count.promise
}

function startTokenizer(): Tokenizer {
  // V8 would otherwise let the garbage of counting grow to 20 MB before it collects it.
  const resourceLimits = { maxYoungGenerationSizeMb: 4 }
  const thread = new Worker(new URL('./tokenizer-thread.ts', import.meta.url), { resourceLimits })
  const asked: Tokenizer['asked'] = []
  const fail = (error: Error) => {
    // The next count starts another thread.
    if (tokenizer?.thread === thread) tokenizer = undefined
    for (const count of asked.splice(0)) count.reject(error)
  }
  thread.on('message', (count: number) => {
    asked.shift()?.resolve(count)
    // Lets the process exit when no count is pending.
    if (asked.length === 0) thread.unref()
  })
  thread.on('error', fail).on('exit', () => fail(new Error('The thread of the tokenizer ended.')))
  return { thread, asked }
}
