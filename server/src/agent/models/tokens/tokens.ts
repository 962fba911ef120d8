import type { LanguageModelV4CallOptions, LanguageModelV4Usage } from '@ai-sdk/provider'
import { isTokenCount } from '../../../plans/usage/record.ts'
import { countTokens } from './tokenizer.ts'

/** The tokens of one call to a model. */
export interface Tokens {
  prompt_tokens: number
  completion_tokens: number
  /** How many of the prompt's tokens the provider had cached, if it reported that. */
  cached_tokens?: number
  /** True if the provider didn't report its usage, or more than it can be. */
  is_estimated: boolean
}

/** The parts of a call that providers charge for. */
export type Prompt = Pick<LanguageModelV4CallOptions, 'prompt' | 'tools'>

/** A provider that refuses a request doesn't charge for it. */
export const noTokens: Tokens = { prompt_tokens: 0, completion_tokens: 0, is_estimated: false }

/**
 * Takes the provider's numbers, or estimates them if it reported none. Every prompt has tokens, so 0 isn't one. Numbers
 * that can't be right are passed to `onWrong`, and estimated too. A completion never counts as more than the `most`
 * tokens that were asked for, and reserved.
 */
export async function measureTokens(
  usage: LanguageModelV4Usage | undefined,
  prompt: Prompt,
  completion: string,
  most: number,
  onWrong: (reported: object) => void = () => {},
): Promise<Tokens> {
  const { total: prompt_tokens, cacheRead = 0 } = usage?.inputTokens ?? {}
  const { total: completion_tokens } = usage?.outputTokens ?? {}
  const isReported = prompt_tokens && completion_tokens !== undefined
  if (isReported && isTokenCount(prompt_tokens) && isTokenCount(completion_tokens)) {
    const cached_tokens = Math.min(Math.max(0, cacheRead), prompt_tokens)
    const is_estimated = completion_tokens > most
    if (is_estimated) onWrong({ prompt_tokens, completion_tokens })
    return {
      prompt_tokens,
      completion_tokens: Math.min(completion_tokens, most),
      ...(cached_tokens > 0 && { cached_tokens }),
      is_estimated,
    }
  }
  if (isReported) onWrong({ prompt_tokens, completion_tokens })
  return {
    prompt_tokens: await countPromptTokens(prompt),
    completion_tokens: Math.min(await countTokens(completion), most),
    is_estimated: true,
  }
}

/** Tokens that surround each message in the formats that models are trained on. */
const tokensPerMessage = 4

export async function countPromptTokens({ prompt, tools = [] }: Prompt): Promise<number> {
  // Each part by itself: the last message also describes the page, and is counted without it in later steps.
  const texts = prompt.flatMap(({ content }) => (typeof content === 'string' ? content : content.map(textOf)))
  // The tools together: pages of visitors may declare many long ones, and only a part of a long text is counted.
  const definitions = tools.length > 0 ? [JSON.stringify(tools)] : []
  const counts = await Promise.all([...texts, ...definitions].map(countTokens))
  return counts.reduce((sum, count) => sum + count, prompt.length * tokensPerMessage)
}

type Part = Exclude<LanguageModelV4CallOptions['prompt'][number]['content'], string>[number]

function textOf(part: Part): string {
  if (part.type === 'text' || part.type === 'reasoning') return part.text
  if (part.type === 'tool-call') return `${part.toolName} ${JSON.stringify(part.input)}`
  if (part.type === 'tool-result') return `${part.toolName} ${JSON.stringify(part.output)}`
  // The size of a file says nothing about its tokens.
  return ''
}
