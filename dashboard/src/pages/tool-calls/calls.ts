import type { components } from '@inlay/client'
import { saveFile } from '../../lib/files.ts'
import { ApiError, api, unwrap } from '../../session/api.ts'

export type Call = components['schemas']['ToolCall']
export type Outcome = Call['outcome']

export interface CallFilters {
  tool?: string
  outcome?: Outcome
  user_id?: string
  start_date: string
  end_date: string
}

export const outcomeTones = {
  succeeded: 'good',
  tool_error: 'bad',
  failed: 'bad',
  refused: 'wait',
  cancelled: 'plain',
  timed_out: 'bad',
} as const

/** Calls are found by time, so the URL of a call has its time too. */
export const placeOf = ({ at, id }: Call): string => `${Date.parse(at)}_${id}`

const mostAtOneTime = 1_000

export async function findCall(place: string, signal: AbortSignal): Promise<Call | null> {
  const [, ms, id] = /^(\d{1,13})_([0-9a-f-]{36})$/.exec(place) ?? []
  if (!ms || !id) return null
  const at = new Date(Number(ms)).toISOString()
  const query = { start_date: at, end_date: at, limit: mostAtOneTime }
  const { tool_calls } = await unwrap(api.GET('/tool-calls', { params: { query }, signal }))
  return tool_calls.find((call) => call.id === id) ?? null
}

const callsPerRequest = 1_000
const mostCalls = 50_000

/** Saves the calls as a file, newest first. Returns how many there were, and whether there are more. */
export async function exportCalls(
  filters: CallFilters,
  format: 'csv' | 'jsonl',
): Promise<{ count: number; isCut: boolean }> {
  const lines: string[] = []
  let head = ''
  let cursor: string | null = null
  do {
    const query: CallFilters & { limit: number; format: 'csv' | 'jsonl'; cursor?: string } = {
      ...filters,
      limit: callsPerRequest,
      format,
      ...(cursor && { cursor }),
    }
    const { data, error, response } = await api.GET('/tool-calls', { params: { query }, parseAs: 'text' })
    if (!response.ok) throw new ApiError(response, error)
    const page = splitRecords(data as string, format)
    if (format === 'csv') head = page.shift() ?? head
    lines.push(...page)
    cursor = response.headers.get('next-cursor')
  } while (cursor && lines.length < mostCalls)
  const end = format === 'csv' ? '\r\n' : '\n'
  const all = format === 'csv' ? [head, ...lines] : lines
  const name = `tool-calls-${filters.start_date}-${filters.end_date}.${format}`
  saveFile(name, format === 'csv' ? 'text/csv' : 'application/jsonl', all.map((line) => line + end).join(''))
  return { count: lines.length, isCut: cursor !== null }
}

/** Splits a file into records. In CSV, a line break within quotes doesn't end a record. */
function splitRecords(text: string, format: 'csv' | 'jsonl'): string[] {
  const records = format === 'jsonl' ? text.split('\n') : (text.match(/(?:[^"\r\n]|"(?:[^"]|"")*")+/g) ?? [])
  return records.filter((record) => record !== '')
}
