import { setImmediate } from 'node:timers/promises'
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from '@ai-sdk/provider'
import { countTokens } from '../tokens/tokenizer.ts'
import { countPromptTokens } from '../tokens/tokens.ts'
import { decide } from './demo-rules.ts'

/** A finished reply: text in words, or one call of a tool. */
interface Answer {
  words: string[]
  call: { toolCallId: string; toolName: string; input: string } | undefined
  finishReason: LanguageModelV4FinishReason
  usage: LanguageModelV4Usage
}

/** A model that needs no network. It follows the rules in demo-rules.ts, so the same prompt has the same reply. */
export function createDemoModel(): LanguageModelV4 {
  return {
    specificationVersion: 'v4',
    provider: 'demo',
    modelId: 'demo',
    supportedUrls: {},
    async doGenerate(options) {
      const { words, call, finishReason, usage } = await answer(options)
      const text = words.join('')
      return {
        content: [
          ...(text ? [{ type: 'text' as const, text }] : []),
          ...(call ? [{ type: 'tool-call' as const, ...call }] : []),
        ],
        finishReason,
        usage,
        warnings: [],
      }
    },
    async doStream(options) {
      return { stream: streamParts(partsOf(await answer(options)), options.abortSignal) }
    },
  }
}

async function answer(options: LanguageModelV4CallOptions): Promise<Answer> {
  options.abortSignal?.throwIfAborted()
  const reply = decide(options)
  const limit = options.maxOutputTokens ?? Number.POSITIVE_INFINITY
  const promptTokens = await countPromptTokens(options)
  options.abortSignal?.throwIfAborted()
  if ('tool' in reply) {
    const input = JSON.stringify(reply.input)
    const tokens = await countTokens(`${reply.tool} ${input}`)
    if (tokens > limit) return finish('length', [], undefined, promptTokens, 0)
    const call = { toolCallId: `demo_${countCalls(options) + 1}`, toolName: reply.tool, input }
    return finish('tool-calls', [], call, promptTokens, tokens)
  }
  const all = reply.text.match(/\s*\S+/g) ?? []
  const words: string[] = []
  let tokens = 0
  for (const word of all) {
    tokens += await countTokens(word)
    if (tokens > limit) break
    words.push(word)
  }
  const isWhole = words.length === all.length
  return finish(isWhole ? 'stop' : 'length', words, undefined, promptTokens, await countTokens(words.join('')))
}

function finish(
  unified: LanguageModelV4FinishReason['unified'],
  words: string[],
  call: Answer['call'],
  promptTokens: number,
  completionTokens: number,
): Answer {
  return {
    words,
    call,
    finishReason: { unified, raw: unified },
    usage: {
      inputTokens: { total: promptTokens, noCache: promptTokens, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: completionTokens, text: completionTokens, reasoning: 0 },
    },
  }
}

/** Makes the ids of calls unique within a conversation. */
const countCalls = ({ prompt }: LanguageModelV4CallOptions): number =>
  prompt.flatMap(({ role, content }) =>
    role === 'assistant' ? content.filter(({ type }) => type === 'tool-call') : [],
  ).length

function* partsOf({ words, call, finishReason, usage }: Answer): Generator<LanguageModelV4StreamPart> {
  yield { type: 'stream-start', warnings: [] }
  if (words.length > 0) {
    yield { type: 'text-start', id: 'text' }
    for (const delta of words) yield { type: 'text-delta', id: 'text', delta }
    yield { type: 'text-end', id: 'text' }
  }
  if (call) {
    const { toolCallId: id, toolName, input } = call
    yield { type: 'tool-input-start', id, toolName }
    yield { type: 'tool-input-delta', id, delta: input }
    yield { type: 'tool-input-end', id }
    yield { type: 'tool-call', ...call }
  }
  yield { type: 'finish', finishReason, usage }
}

/** One part per turn of the event loop, so that an abort takes effect between two words. */
function streamParts(parts: Iterator<LanguageModelV4StreamPart>, signal: AbortSignal | undefined) {
  return new ReadableStream<LanguageModelV4StreamPart>(
    {
      async pull(controller) {
        await setImmediate()
        signal?.throwIfAborted()
        const { value, done } = parts.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
    },
    { highWaterMark: 0 },
  )
}
