import { join } from 'node:path'
import type { Config } from '../../kernel/config/config.ts'
import { type ModelPrice, readPriceFile } from '../../kernel/config/price-file.ts'
import type { Model } from './models.ts'
import type { Tokens } from './tokens/tokens.ts'

/** Micro-USD for a million tokens. */
export interface Price {
  prompt: number
  completion: number
  /** For prompt tokens that the provider had cached, if that price differs. */
  cachedPrompt?: number | undefined
}

export interface ModelFacts {
  /** Null if it isn't known. */
  price: Price | null
  /** The longest prompt that the model accepts. */
  contextTokens: number
  /** The most that the model can be asked to generate in one call. */
  maxOutputTokens: number
}

export interface Prices {
  describe(model: Pick<Model, 'source' | 'name'>): ModelFacts
}

/** For models that aren't in a file: small enough for most servers that people run themselves. */
const defaultContextTokens = 32_768
const defaultMaxOutputTokens = 4_096

const free: Price = { prompt: 0, completion: 0 }

export const shippedPriceFile = join(import.meta.dirname, 'default-prices.json')

/** The operator's prices, and the built-in ones for other models. */
export function createPrices({ modelPrices }: Pick<Config, 'modelPrices'>): Prices {
  const shippedPrices = readPriceFile(shippedPriceFile)
  return {
    describe({ source, name }) {
      const own = findPrice(modelPrices, name)
      const shipped = findPrice(shippedPrices, name)
      return {
        price: source === 'demo' ? free : (priceOf(own) ?? (source === 'ollama' ? free : priceOf(shipped))),
        contextTokens: own?.context_tokens ?? shipped?.context_tokens ?? defaultContextTokens,
        maxOutputTokens: own?.max_output_tokens ?? shipped?.max_output_tokens ?? defaultMaxOutputTokens,
      }
    },
  }
}

const priceOf = (entry: ModelPrice | undefined): Price | null =>
  entry
    ? {
        prompt: entry.prompt_micro_usd_per_million,
        completion: entry.completion_micro_usd_per_million,
        cachedPrompt: entry.cached_prompt_micro_usd_per_million,
      }
    : null

/** The entry with exactly this name, otherwise the one with the longest beginning of it. */
function findPrice(prices: readonly ModelPrice[], name: string): ModelPrice | undefined {
  let best: { entry: ModelPrice; length: number } | undefined
  for (const entry of prices) {
    for (const pattern of entry.models) {
      if (pattern === name) return entry
      const start = pattern.endsWith('*') ? pattern.slice(0, -1) : undefined
      if (start !== undefined && name.startsWith(start) && start.length > (best?.length ?? 0)) {
        best = { entry, length: start.length }
      }
    }
  }
  return best?.entry
}

/** The cost of a call in micro-USD, rounded up. */
export function costOf(
  { prompt, completion, cachedPrompt = prompt }: Price,
  {
    prompt_tokens,
    completion_tokens,
    cached_tokens = 0,
  }: Pick<Tokens, 'prompt_tokens' | 'completion_tokens' | 'cached_tokens'>,
): number {
  const uncached = prompt_tokens - cached_tokens
  return Math.ceil((uncached * prompt + cached_tokens * cachedPrompt + completion_tokens * completion) / 1_000_000)
}
