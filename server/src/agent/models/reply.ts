import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart, LanguageModelV4ToolCall } from '@ai-sdk/provider'
import { replaceNul } from '../../kernel/untrusted/page-text.ts'
import { isRefusal, ReplyTooLong } from './failures.ts'
import type { Model } from './models.ts'

/** What has arrived of a model's reply. */
export interface ModelReply {
  /** Whether the provider refused the request or never received it, so that it doesn't charge for it. */
  isRefused: boolean
  text: string
  calls: LanguageModelV4ToolCall[]
  /** Undefined if the stream ended without a finish. */
  finish: Extract<LanguageModelV4StreamPart, { type: 'finish' }> | undefined
}

export const noReply = (): ModelReply => ({ isRefused: false, text: '', calls: [], finish: undefined })

interface Listener {
  /** Further calls are dropped as they arrive. */
  mostCalls: number
  /** How long the model may be silent. */
  silenceMs: number
  signal: AbortSignal
  onText?(delta: string): void
}

/**
 * Characters of text, thoughts and arguments together that a reply may have for each token that was asked for. Tokens
 * have four characters on average, and hardly ever more than eight.
 */
const charactersPerToken = 16

/**
 * Adds to `reply` what the model says. Throws if it fails, says far more than it was asked for, is silent for too long,
 * or `signal` is aborted.
 */
export async function readReply(
  model: Model,
  options: LanguageModelV4CallOptions & { maxOutputTokens: number },
  reply: ModelReply,
  { mostCalls, silenceMs, signal, onText }: Listener,
): Promise<void> {
  const silence = new AbortController()
  const timer = setTimeout(
    () => silence.abort(new DOMException('The model was silent for too long', 'TimeoutError')),
    silenceMs,
  )
  const excess = new AbortController()
  const most = charactersPerToken * options.maxOutputTokens
  let length = 0
  /** Returns what is still within the limit. */
  function count(said: string): string {
    const room = Math.max(0, most - length)
    length += said.length
    if (length <= most) return said
    const limit = `${options.maxOutputTokens} tokens can't have more than ${most} characters`
    excess.abort(new ReplyTooLong(limit))
    return said.slice(0, room)
  }
  const known = new Set<string>()
  try {
    const abortSignal = AbortSignal.any([signal, silence.signal, excess.signal])
    const call = async () => model.language.doStream({ ...options, abortSignal })
    const { stream } = await call().catch((error) => {
      reply.isRefused = isRefusal(error)
      throw error
    })
    for await (const part of stream) {
      timer.refresh()
      if (part.type === 'text-delta') {
        const text = replaceNul(count(part.delta))
        if (text === '') continue
        reply.text += text
        onText?.(text)
      } else if (part.type === 'reasoning-delta' || part.type === 'tool-input-delta') count(part.delta)
      else if (part.type === 'tool-input-start') {
        known.add(part.id)
        count(part.id + part.toolName)
      } else if (part.type === 'tool-call') {
        if (!known.has(part.toolCallId)) count(part.toolCallId + part.toolName + part.input)
        excess.signal.throwIfAborted()
        if (reply.calls.length < mostCalls) reply.calls.push({ ...part, toolCallId: replaceNul(part.toolCallId) })
      } else if (part.type === 'error') throw part.error
      else if (part.type === 'finish') reply.finish = part
    }
    abortSignal.throwIfAborted()
    const finish = reply.finish?.finishReason.unified ?? 'interrupted'
    if (finish === 'error' || finish === 'interrupted') throw new Error('The stream broke off')
  } catch (error) {
    // What follows from the abort doesn't say why.
    throw excess.signal.aborted && !signal.aborted ? excess.signal.reason : error
  } finally {
    clearTimeout(timer)
  }
}
