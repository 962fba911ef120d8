import { readFileSync } from 'node:fs'
import type { z } from 'zod'
import { parseJson } from '../lib/json.ts'

/** Reads a JSON file and checks its shape. Error messages continue the name of the setting. */
export function readJsonFile<Shape extends z.ZodType>(path: string, shape: Shape): z.output<Shape> {
  const result = shape.safeParse(parse(readText(path)))
  if (result.success) return result.data
  const [issue] = result.error.issues
  throw new Error(`names a file with an error at "${issue?.path.join('.')}": ${issue?.message}`)
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`names a file that can't be read: ${(error as Error).message}`)
  }
}

function parse(text: string): unknown {
  try {
    return parseJson(text)
  } catch (error) {
    throw new Error(`names a file that isn't valid JSON: ${(error as Error).message}`)
  }
}
