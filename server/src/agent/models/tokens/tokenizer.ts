import { hash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'
import type { Asked, Counted } from './tokenizer-thread.ts'

/**
 * Counts of earlier texts by their hash: instructions, tools and the beginning of a conversation are the same in every
 * step, and a hash takes far less time than a count.
 */
const known = new LRUCache<string, Promise<number>>({ max: 10_000 })

/** How many characters of a text are counted. The messages of users aren't longer. */
const mostCounted = 32_000
const partLength = 500

/**
 * Counts with OpenAI's tokenizer. Other models split text differently, so it's an estimate for them. The count of a very
 * long text is estimated from parts of it.
 */
export function countTokens(text: string): Promise<number> {
  const key = hash('sha256', text, 'base64')
  let count = known.get(key)
  if (!count) {
    count = text.length <= mostCounted ? tokenize(text) : estimate(text)
    known.set(key, count)
    count.catch(() => known.delete(key))
  }
  return count
}

async function estimate(text: string): Promise<number> {
  return Math.round(((await tokenize(takeParts(text))) / mostCounted) * text.length)
}

/** Takes parts from all over a text, at random, so that nobody can write a text that seems to have fewer tokens. */
function takeParts(text: string): string {
  const distance = (text.length * partLength) / mostCounted
  const parts = Array.from({ length: mostCounted / partLength }, (_, index) => {
    const start = Math.floor(index * distance + Math.random() * (distance - partLength))
    return text.slice(start, start + partLength)
  })
  return parts.join('')
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
  pending: Map<number, PromiseWithResolvers<number>>
}
let tokenizer: Tokenizer | undefined
let lastId = 0

function tokenize(text: string): Promise<number> {
  tokenizer ??= startTokenizer()
  const count = Promise.withResolvers<number>()
  lastId += 1
  const asked: Asked = { id: lastId, text }
  tokenizer.pending.set(asked.id, count)
  tokenizer.thread.ref()
  tokenizer.thread.postMessage(asked)
  return count.promise
}

function startTokenizer(): Tokenizer {
  // V8 would otherwise let the garbage of counting grow to 20 MB before it collects it.
  const resourceLimits = { maxYoungGenerationSizeMb: 4 }
  const thread = new Worker(new URL('./tokenizer-thread.ts', import.meta.url), { resourceLimits })
  const pending: Tokenizer['pending'] = new Map()
  const fail = (error: Error) => {
    // The next count starts another thread.
    if (tokenizer?.thread === thread) tokenizer = undefined
    for (const count of pending.values()) count.reject(error)
    pending.clear()
  }
  thread.on('message', ({ id, count }: Counted) => {
    pending.get(id)?.resolve(count)
    pending.delete(id)
    // Lets the process exit when no count is pending.
    if (pending.size === 0) thread.unref()
  })
  thread.on('error', fail).on('exit', () => fail(new Error('The thread of the tokenizer ended.')))
  return { thread, pending }
}
