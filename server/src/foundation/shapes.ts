import { z } from 'zod'
import { isId } from '../lib/ids.ts'
import { nameProblem, tidyName } from '../lib/names.ts'
import { InvalidOrigin, parseOriginPattern } from '../net/origins.ts'

/** Shapes that several contracts share. */

/** `2026-11-15T03:02:21.123Z` */
export const Timestamp = z.iso.datetime({ precision: 3 })

/** A path parameter; what does not look like an id is answered as unknown, not as invalid. */
export const Id = z.strictObject({
  id: z
    .string()
    .refine(isId)
    .describe(
      'ID from the operation that created or listed the resource. An unknown ID, or one of another organization, is a 404.',
    ),
})

/** Of a member of an organization. */
export const Role = z.enum(['admin', 'member'])
export type Role = z.infer<typeof Role>

export const Success = z.strictObject({
  success: z.boolean().describe('Always true; a failure has an error response instead'),
})

/** `limit` and `offset` of a list. */
export const Page = z.strictObject({
  limit: z.int().min(1).max(100).default(50).describe('Maximum number of items to return'),
  offset: z
    .int()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .default(0)
    .describe('Number of items to skip from the start of the list'),
})

/** A date-time, or a date, which stands for `timeOfDay` on that UTC day. */
export const moment = (timeOfDay: string) =>
  z
    .union([z.iso.date(), z.iso.datetime({ offset: true })], 'An ISO 8601 date or date-time is expected')
    .transform((text, context) => {
      const ms = Date.parse(text.length === 10 ? `${text}T${timeOfDay}Z` : text)
      if (ms >= Date.UTC(1970) && ms < Date.UTC(10_000)) return new Date(ms).toISOString()
      context.addIssue({ code: 'custom', message: 'Dates from 1970-01-01 to 9999-12-31 are known' })
      return z.NEVER
    })
    .optional()

const OriginPattern = z
  .string()
  .max(300)
  .meta({ examples: ['https://app.example.com'] })
  .transform((text, context) => {
    try {
      return parseOriginPattern(text)
    } catch (error) {
      if (!(error instanceof InvalidOrigin)) throw error
      context.addIssue({ code: 'custom', message: error.message })
      return z.NEVER
    }
  })

/** Origins as browsers send them, or with a single leading wildcard label; stored in canonical form, each once. */
export const originPatterns = (max: number) =>
  z
    .array(OriginPattern)
    .max(max)
    .transform((origins) => [...new Set(origins)])

/** A name that people choose; `lib/names.ts` says what is refused and why. */
export const name = (max: number, messages: { empty?: string; long?: string } = {}) =>
  z
    .string()
    .overwrite(tidyName)
    .min(1, messages.empty)
    .max(max, messages.long)
    .superRefine((text, context) => {
      const problem = nameProblem(text)
      if (problem) context.addIssue({ code: 'custom', message: problem })
    })
