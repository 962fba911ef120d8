import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

const { $defs } = JSON.parse(readFileSync(join(import.meta.dirname, 'schemas.json'), 'utf8'))
const parsers = new Map<string, z.ZodType>()

/** A response of the stand-in, and the schema that Polar's OpenAPI document has for it. */
export interface Answer {
  status: number
  schema?: string
  body: unknown
}

/** Returns why a value doesn't conform to a schema of Polar's OpenAPI document. */
export function conforms(schema: string, value: unknown): string | undefined {
  const parser = parsers.getOrInsertComputed(schema, () => z.fromJSONSchema({ $defs, $ref: `#/$defs/${schema}` }))
  const { error } = parser.safeParse(value)
  return error && `${schema}: ${JSON.stringify(error.issues)}`
}
