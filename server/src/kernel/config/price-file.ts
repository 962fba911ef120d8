import { z } from 'zod'
import { readJsonFile } from './json-file.ts'

/** Far above any price, so that costs stay exact: 1 000 USD for a million tokens. */
const Price = z.int().min(0).max(1_000_000_000)
const Limit = z.int().min(1).max(100_000_000)

/** Prices and limits of a model, in the operator's file or the built-in one. */
const ModelPrice = z.strictObject({
  /** Names of the model. A name that ends in `*` stands for all names that begin like it. */
  models: z
    .array(
      z
        .string()
        .max(200)
        .regex(/^[^*]+\*?$/, 'must be a name, or the beginning of one with * at the end'),
    )
    .min(1),
  /** 3000000 is 3 USD for a million tokens. */
  prompt_micro_usd_per_million: Price,
  completion_micro_usd_per_million: Price,
  /** Of prompt tokens that the provider had cached. Without it, they cost the same as others. */
  cached_prompt_micro_usd_per_million: Price.optional(),
  /** The longest prompt that the model accepts at this price. */
  context_tokens: Limit.optional(),
  max_output_tokens: Limit.optional(),
  /** When and where the price was found. */
  taken_on: z.iso.date().optional(),
  source: z.url().optional(),
})
export type ModelPrice = z.infer<typeof ModelPrice>

/** Reads and checks a file of prices. Error messages continue the name of the setting. */
export function readPriceFile(path: string): readonly ModelPrice[] {
  const prices = readJsonFile(path, z.array(ModelPrice))
  const names = prices.flatMap(({ models }) => models)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice) throw new Error(`names a file that has "${twice}" twice`)
  return prices
}
