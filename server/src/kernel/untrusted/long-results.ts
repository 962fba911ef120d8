import type { Sql } from '../stores/database.ts'

/** Characters of a result that models and clients get at once. Models can read on. */
export const shownLength = 16_000
/** Characters of a result that are stored. */
const storedLength = 256 * 1024
/** Further results of a run are stored only as far as they are shown. */
const mostBytesPerRun = 4 * 1024 * 1024

/**
 * What is stored of a result that others have written. The caller must have locked the thread, because the limit is for
 * the run's results together.
 */
export async function fitResult(sql: Sql, runId: string, result: string): Promise<string> {
  if (result.length <= shownLength) return result
  const [stored] = await sql<{ bytes: number }>`
    select coalesce(sum(octet_length(result)), 0)::int as bytes from tool_calls where run_id = ${runId}`
  const room = Math.min(storedLength, mostBytesPerRun - (stored?.bytes ?? 0))
  return shorten(result, Math.max(shownLength, room))
}

function shorten(result: string, length: number): string {
  if (result.length <= length) return result
  const note = `\n\n(The result has ${result.length} characters. The rest was left out.)`
  return result.slice(0, length - note.length).toWellFormed() + note
}

/** The beginning of a result, and the length of the whole. */
export function beginningOf(result: string, { result_length }: { result_length?: number | null }) {
  return { shown: result.slice(0, shownLength).toWellFormed(), length: Math.max(result.length, result_length ?? 0) }
}
