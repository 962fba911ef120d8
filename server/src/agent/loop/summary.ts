import type { Model } from '../models/models.ts'
import { noReply, readReply } from '../models/reply.ts'
import { countPromptTokens, measureTokens, noTokens, type Prompt } from '../models/tokens/tokens.ts'
import { writeSummaryPrompt } from '../prompts/compaction.ts'
import { writePrompt } from '../prompts/prompt.ts'
import type { Conversation, RunStory } from '../runs/rows.ts'
import { beginModelCall, explainBudget, settleModelCall, warnOfUsage } from './metering.ts'
import { addOrigins } from './tool-calls.ts'
import type { RunParts, Work } from './work.ts'

const summaryTokens = 1_500

interface RequestTools {
  definitions: NonNullable<Prompt['tools']>
  /** Origins of the request that the thread doesn't have yet: the summary can contain their text. */
  newOrigins: readonly string[]
}

/**
 * Replaces the beginning of a conversation with a summary by the model, which is charged like any other request. Throws a
 * ModelFailed if the model fails.
 */
export async function summarize(
  parts: RunParts,
  { run, lease, log, trace: runTrace }: Work,
  model: Model,
  conversation: Conversation,
  old: readonly RunStory[],
  { definitions: tools, newOrigins }: RequestTools,
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
    .write((sql, held) => {
      const tainting = newOrigins.length > 0 && addOrigins(sql, run.threadId, newOrigins)
      return beginModelCall(sql, run, model, facts, plan, Promise.all([held, tainting]))
    })
    .catch((error) => {
      throw explainBudget(error)
    })
  const trace = runTrace?.startModelCall(model, prompt, maxOutputTokens)
  const reply = noReply()
  try {
    const { silenceMs, summaryMs } = parts.limits
    const signal = AbortSignal.any([lease.signal, AbortSignal.timeout(summaryMs)])
    const options = { ...prompt, maxOutputTokens, toolChoice: { type: 'none' as const } }
    await readReply(model, options, reply, { mostCalls: 0, silenceMs, signal })
    if (reply.text.trim() === '') throw new Error('The summary is empty')
  } catch (error) {
    const tokens = reply.isRefused ? noTokens : await measureTokens(undefined, prompt, reply.text, maxOutputTokens)
    const failed = lease.signal.aborted ? undefined : parts.models.explain(error, model)
    trace?.end({ ...reply, tokens, finish: 'error', failure: failed?.reason ?? 'interrupted' })
    await lease.write((sql) => settleModelCall(sql, run, call, tokens, 'failed: summary'))
    throw failed ?? error
  }
  const onWrong = warnOfUsage(parts, run, model)
  const tokens = await measureTokens(reply.finish?.usage, prompt, reply.text, maxOutputTokens, onWrong)
  trace?.end({ ...reply, tokens, finish: reply.finish?.finishReason.unified ?? 'other' })
  await lease.write(async (sql) => {
    await sql`
      update threads set summary = ${reply.text.toWellFormed()}, summary_position = ${old.at(-1)?.run.position ?? 0}
      where id = ${run.threadId}`
    await settleModelCall(sql, run, call, tokens, 'summary')
  })
  log.append({ type: 'data-summary', data: { runs: old.length } })
}
