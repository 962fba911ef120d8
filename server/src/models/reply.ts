import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart, LanguageModelV4ToolCall } from '@ai-sdk/provider'
import { replaceNul } from '../untrusted/page-text.ts'
import { textListeners } from './event-pace.ts'
import { isRefusal } from './failures.ts'
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

/** Adds to `reply` what the model says. Throws if it fails, is silent for too long, or `signal` is aborted. */
export async function readReply(
  model: Model,
  options: LanguageModelV4CallOptions,
  reply: ModelReply,
  { mostCalls, silenceMs, signal, onText }: Listener,
): Promise<void> {
  const silence = new AbortController()
  const timer = setTimeout(
    () => silence.abort(new DOMException('The model was silent for too long', 'TimeoutError')),
    silenceMs,
  )
  function take(said: string): void {
    timer.refresh()
    if (said === '') return
    const text = replaceNul(said)
    reply.text += text
    onText?.(text)
  }
  const listener = { take, endsWith: (text: string) => reply.text.endsWith(replaceNul(text)) }
  try {
    const abortSignal = AbortSignal.any([signal, silence.signal])
    const call = async () => model.language.doStream({ ...options, abortSignal })
    const { stream } = await textListeners.run(listener, call).catch((error) => {
      reply.isRefused = isRefusal(error)
      throw error
    })
    for await (const part of stream) {
      timer.refresh()
      if (part.type === 'text-delta') take(part.delta)
      else if (part.type === 'tool-call') {
        if (reply.calls.length < mostCalls) reply.calls.push({ ...part, toolCallId: replaceNul(part.toolCallId) })
      } else if (part.type === 'error') throw part.error
      else if (part.type === 'finish') reply.finish = part
    }
    abortSignal.throwIfAborted()
    const finish = reply.finish?.finishReason.unified ?? 'interrupted'
    if (finish === 'error' || finish === 'interrupted') throw new Error('The stream broke off')
  } finally {
    clearTimeout(timer)
  }
}
