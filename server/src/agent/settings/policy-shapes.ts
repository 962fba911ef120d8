import { z } from 'zod'
import { InvalidOrigin, parseOrigin } from '../../kernel/net/origins.ts'

const maxPolicies = 500
const maxToolLength = 200
const maxOriginLength = 300
const maxGroupSize = 20

export const ToolPolicy = z.enum(['auto', 'ask', 'never'])

/** Policies by tool, with each tool's origin in canonical form. */
export const ToolPolicies = z
  .record(z.string(), ToolPolicy)
  .transform((written, context) => {
    const policies: Record<string, z.infer<typeof ToolPolicy>> = {}
    for (const [key, policy] of Object.entries(written)) {
      const addIssue = (message: string) => context.addIssue({ code: 'custom', path: [key], message })
      const tool = readTool(key, addIssue)
      if (Object.hasOwn(policies, tool)) addIssue('Names the same tool as another key')
      policies[tool] = policy
    }
    return policies
  })
  .refine((policies) => Object.keys(policies).length <= maxPolicies, `Must have at most ${maxPolicies} tools`)

/** `<tool>`, or `<origin> <tool>`. */
function readTool(written: string, addIssue: (problem: string) => void): string {
  const [, origin, name = written] = /^(https?:\/\/\S*) (.*)$/is.exec(written) ?? []
  if (name === '' || name.length > maxToolLength) addIssue(`The tool must have 1 to ${maxToolLength} characters`)
  if (/\p{C}/u.test(name)) addIssue('The tool must not contain control characters')
  if (origin === undefined) return name
  return `${readOrigin(origin, addIssue)} ${name}`
}

/** Returns an origin in canonical form. */
function readOrigin(written: string, addIssue: (problem: string) => void): string {
  try {
    if (written.length <= maxOriginLength) return parseOrigin(written)
    addIssue(`An origin must have at most ${maxOriginLength} characters`)
  } catch (error) {
    if (!(error instanceof InvalidOrigin)) throw error
    addIssue(error.message)
  }
  return z.NEVER
}

const Origin = z
  .string()
  .meta({ examples: ['https://shop.example.com'] })
  .transform((written, context) => readOrigin(written, (message) => context.addIssue({ code: 'custom', message })))

/** Origins that trust each other. Without wildcards, because whoever controls a subdomain would be trusted too. */
export const OriginGroup = z
  .array(Origin)
  .max(maxGroupSize)
  .transform((origins) => [...new Set(origins)])
  .refine((origins) => origins.length > 1, 'Must have at least two different origins')
