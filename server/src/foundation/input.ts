import type { z } from 'zod'
import { type Failure, invalid } from '../lib/errors.ts'
import { shortenKey } from '../lib/json.ts'

/** Validates input, with the same errors for REST and MCP. */
export function check<T extends z.ZodObject>(type: T, value: unknown): z.output<T> {
  const result = type.safeParse(value, { reportInput: true })
  if (result.success) return result.data
  throw describeIssue(result.error.issues[0] as z.core.$ZodIssue)
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
