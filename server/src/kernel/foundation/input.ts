import type { z } from 'zod'
import { type Failure, invalid } from '../lib/errors.ts'
import { shortenKey } from '../lib/json.ts'

/** Validates input, with the same errors for REST and MCP. */
export function check<T extends z.ZodObject>(type: T, value: unknown): z.output<T> {
  const result = type.safeParse(value, { reportInput: true, error: explainLimit })
  if (result.success) return result.data
  throw describeIssue(result.error.issues[0] as z.core.$ZodIssue)
}

/** Without an entry, the value itself has the limit. */
const units: Record<string, string> = { string: 'character', array: 'item', record: 'field', map: 'item', set: 'item' }

/** Replaces zod's notation for limits, such as `expected number to be >=1`. Other problems keep zod's text. */
const explainLimit: z.core.$ZodErrorMap = (issue) => {
  if (issue.code === 'invalid_type' && issue.expected === 'int') return 'Must be a whole number'
  if (issue.code !== 'too_small' && issue.code !== 'too_big') return undefined
  const [bound, limit] =
    issue.code === 'too_small' ? (['at least', issue.minimum] as const) : (['at most', issue.maximum] as const)
  const unit = units[issue.origin]
  return unit ? `Must have ${bound} ${limit} ${unit}${Number(limit) === 1 ? '' : 's'}` : `Must be ${bound} ${limit}`
}

/** Turns the first issue into a validation error with a dotted path and a sentence. */
function describeIssue(issue: z.core.$ZodIssue): Failure {
  const path = issue.path.map((part) => (typeof part === 'string' ? shortenKey(part) : part))
  if (issue.code === 'unrecognized_keys') {
    const key = shortenKey(issue.keys[0] ?? '')
    return invalid([...path, key].join('.'), `Unknown field "${key}"`)
  }
  const isMissing = issue.code === 'invalid_type' && issue.input === undefined && issue.path.length > 0
  return invalid(path.join('.'), isMissing ? 'Required' : issue.message)
}
