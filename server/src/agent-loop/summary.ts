import type { LanguageModelV4StreamPart } from '@ai-sdk/provider'
import type { Model } from '../models/models.ts'
import { countPromptTokens, measureTokens, type Prompt } from '../models/tokens.ts'
import { writeSummaryPrompt } from '../prompts/compaction.ts'
import { writePrompt } from '../prompts/prompt.ts'
import type { Conversation, RunStory } from '../runs/rows.ts'
import { beginModelCall, explainBudget, settleModelCall } from './metering.ts'
import type { RunParts, Work } from './work.ts'

const summaryTokens = 1_500

/** Replaces the beginning of a conversation with a summary by the model. It is charged like any other request. */
export async function summarize(
  parts: RunParts,
  { run, lease, log, trace: runTrace }: Work,
  model: Model,
  conversation: Conversation,
  old: readonly RunStory[],
  tools: NonNullable<Prompt['tools']>,
): Promise<void> {
  const stories = [...old]
  const whole = writePrompt({ system: '', conversation: { ...conversation, stories }, skills: new Map(), page: null })
  // Providers reject calls of tools in a prompt if the tools aren't defined.
  const prompt: Prompt = { prompt: writeSummaryPrompt(whole), tools }
  const facts = parts.prices.describe(model)
  const promptTokens = await countPromptTokens(prompt)
  const maxOutputTokens = Math.min(summaryTokens, facts.maxOutputTokens)
  const plan = { step: 0, purpose: 'summary' as const, promptTokens, maxOutputTokens }
  const call = await lease
    .write((sql, held) => beginModelCall(sql, run, model, facts, plan, held))
    .catch((error) => {
      throw explainBudget(error)
    })
  const trace = runTrace?.startModelCall(model, prompt, maxOutputTokens)
  let text = ''
  try {
    const abortSignal = AbortSignal.any([lease.signal, AbortSignal.timeout(parts.limits.summaryMs)])
    const options = { ...prompt, maxOutputTokens, toolChoice: { type: 'none' as const }, abortSignal }
    const { stream } = await model.language.doStream(options)
    let finish: Extract<LanguageModelV4StreamPart, { type: 'finish' }> | undefined
    for await (const part of stream) {
      if (part.type === 'error') throw part.error
      if (part.type === 'text-delta') text += part.delta
      if (part.type === 'finish') finish = part
    }
    const reason = finish?.finishReason.unified ?? 'interrupted'
    if (reason === 'error' || reason === 'interrupted') throw new Error('The stream broke off')
    if (text.trim() === '') throw new Error('The summary is empty')
    const tokens = await measureTokens(finish?.usage, prompt, text)
    trace?.end({ text, calls: [], tokens, finish: reason })
    await lease.write(async (sql) => {
      await sql`
        update threads set summary = ${text.toWellFormed()}, summary_position = ${old.at(-1)?.run.position ?? 0}
        where id = ${run.threadId}`
      await settleModelCall(sql, run, call, tokens, 'summary')
    })
    log.append({ type: 'data-summary', data: { runs: old.length } })
  } catch (error) {
    const tokens = await measureTokens(undefined, prompt, text)
    const failed = lease.signal.aborted ? undefined : parts.models.explain(error, model)
    trace?.end({ text, calls: [], tokens, finish: 'error', failure: failed?.reason ?? 'interrupted' })
    await lease.write((sql) => settleModelCall(sql, run, call, tokens, 'failed: summary'))
    throw failed ?? error
  }
}
