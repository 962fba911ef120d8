import { z } from 'zod'
import { isId } from '../lib/ids.ts'
import { nameProblem, textProblem, tidyName } from '../lib/names.ts'
import { InvalidOrigin, parseOriginPattern } from '../net/origins.ts'

/** Shapes that several capabilities share. */

/** `2026-11-15T03:02:21.123Z` */
export const Timestamp = z.iso.datetime({ precision: 3 })

/** A path parameter. A malformed id gets the same 404 as an unknown one. */
export const Id = z.strictObject({
  id: z
    .string()
    .refine(isId)
    .describe(
      'ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404.',
    ),
})

/** A member's role in an organization. */
export const Role = z.enum(['admin', 'member'])
export type Role = z.infer<typeof Role>

export const Success = z.strictObject({
  success: z.boolean().describe('Always true; failures return an error response instead'),
})

/** Pagination of a list. */
export const Page = z.strictObject({
  limit: z.int().min(1).max(100).default(50).describe('Maximum number of items to return'),
  offset: z
    .int()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .default(0)
    .describe('Number of items to skip from the start of the list'),
})

/** Pagination of a list that clients also read as a whole. */
export const OptionalPage = Page.extend({
  limit: Page.shape.limit.removeDefault().optional().describe('Maximum number of items to return. Default: all.'),
})

/** A date-time, or a date, which means `timeOfDay` on that UTC day. */
export const moment = (timeOfDay: string) =>
  z
    .union([z.iso.date(), z.iso.datetime({ offset: true })], 'Must be an ISO 8601 date or date-time')
    .transform((text, context) => {
      const ms = Date.parse(text.length === 10 ? `${text}T${timeOfDay}Z` : text)
      if (ms >= Date.UTC(1970) && ms < Date.UTC(10_000)) return new Date(ms).toISOString()
      context.addIssue({ code: 'custom', message: 'Must be between 1970-01-01 and 9999-12-31' })
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

/** Origins, or patterns with a leading wildcard label. Converted to canonical form, without duplicates. */
export const originPatterns = (max: number) =>
  z
    .array(OriginPattern)
    .max(max)
    .transform((origins) => [...new Set(origins)])

/** A display name; see `kernel/lib/names.ts` for the rules. */
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

/** A longer text, which may be empty and have several lines; see `kernel/lib/names.ts` for the rules. */
export const text = (max: number) =>
  z
    .string()
    .overwrite((written) => written.replace(/\r\n?/g, '\n'))
    .max(max)
    .superRefine((written, context) => {
      const problem = textProblem(written)
      if (problem) context.addIssue({ code: 'custom', message: problem })
    })
