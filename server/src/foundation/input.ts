import type { z } from 'zod'
import { type Failure, invalid } from '../lib/errors.ts'
import { shortenKey } from '../lib/json.ts'

/** What was sent, if it has the shape that it must have; REST and MCP refuse it in the same words. */
export function check<T extends z.ZodObject>(type: T, value: unknown): z.output<T> {
  const result = type.safeParse(value, { reportInput: true })
  if (result.success) return result.data
  throw describeIssue(result.error.issues[0] as z.core.$ZodIssue)
}

/** The first thing that is wrong, in the interface's words: a dotted path and a sentence. */
function describeIssue(issue: z.core.$ZodIssue): Failure {
  if (issue.code === 'unrecognized_keys') {
    const key = shortenKey(issue.keys[0] ?? '')
    return invalid([...issue.path, key].join('.'), `Unknown field "${key}"`)
  }
  const isMissing = issue.code === 'invalid_type' && issue.input === undefined && issue.path.length > 0
  return invalid(issue.path.join('.'), isMissing ? 'Required' : issue.message)
}
