import type { z } from 'zod'
import { invalid } from '../../kernel/lib/errors.ts'
import type { PatchOperation } from './contract.ts'
import { contentLimit, contentTooLong } from './skill-document.ts'

/** Applies each operation to the result of the previous one. If one doesn't match, all are rejected. */
export function applyOperations(content: string, operations: readonly z.output<typeof PatchOperation>[]): string {
  return operations.reduce((text, operation, index) => {
    const { before, after } = asReplacement(operation)
    const places = findAll(text, before)
    if (places.length !== operation.expected_matches) {
      throw invalid(
        `patch.operations.${index}.expected_matches`,
        `Matches expected: ${operation.expected_matches}, found: ${places.length}`,
      )
    }
    // Checked before building the text: a long replacement with many matches could exhaust memory.
    if (text.length + places.length * (after.length - before.length) > contentLimit) throw contentTooLong()
    return replaceAt(text, places, before.length, after)
  }, content)
}

function asReplacement(operation: z.output<typeof PatchOperation>): { before: string; after: string } {
  switch (operation.type) {
    case 'replace':
      return operation
    case 'delete':
      return { before: operation.before, after: '' }
    case 'insert': {
      const { anchor, text, position } = operation
      return { before: anchor, after: position === 'after' ? anchor + text : text + anchor }
    }
  }
}

function replaceAt(text: string, places: readonly number[], length: number, replacement: string): string {
  const ends = [0, ...places.map((place) => place + length)]
  const kept = ends.map((end, index) => text.slice(end, places[index]))
  return kept.join(replacement)
}

/**
 * The positions of `part` in `text`, from left to right, without overlaps. Uses Knuth–Morris–Pratt, because the
 * engine's own search can take 15 seconds for a malicious `part`.
 */
export function findAll(text: string, part: string): number[] {
  const fallback = fallbacksOf(part)
  const places: number[] = []
  let matched = 0
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    while (matched > 0 && part.charCodeAt(matched) !== code) matched = fallback[matched - 1] as number
    if (part.charCodeAt(matched) === code) matched += 1
    if (matched === part.length) {
      places.push(index + 1 - part.length)
      matched = 0
    }
  }
  return places
}

/** For each prefix, the length of its longest proper prefix that is also its suffix. */
function fallbacksOf(part: string): Uint32Array {
  const fallback = new Uint32Array(part.length)
  let matched = 0
  for (let index = 1; index < part.length; index += 1) {
    const code = part.charCodeAt(index)
    while (matched > 0 && part.charCodeAt(matched) !== code) matched = fallback[matched - 1] as number
    if (part.charCodeAt(matched) === code) matched += 1
    fallback[index] = matched
  }
  return fallback
}
