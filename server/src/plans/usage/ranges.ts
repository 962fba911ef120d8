import { invalid } from '../../kernel/lib/errors.ts'
import { spanDays } from './record.ts'

/** UTC days, both inclusive. */
export interface Range {
  start: string
  end: string
}

const dayMs = 24 * 60 * 60 * 1000
const defaultDays = 30
/** Ten years with three leap days. */
const mostDays = 3653

export const dayOf = (moment: number): string => new Date(moment).toISOString().slice(0, 10)
export const daysBefore = (day: string, days: number): string => dayOf(Date.parse(day) - days * dayMs)
export const lengthOf = ({ start, end }: Range): number => (Date.parse(end) - Date.parse(start)) / dayMs + 1

export function rangeOf(asked: { start_date?: string | undefined; end_date?: string | undefined }, now: number): Range {
  const end = asked.end_date ?? dayOf(now)
  const start = asked.start_date ?? daysBefore(end, defaultDays - 1)
  if (start > end) throw invalid('start_date', `${start} is after the end date, ${end}`)
  if (lengthOf({ start, end }) > mostDays) throw invalid('start_date', 'The range is longer than ten years')
  return { start, end }
}

/** The complete spans in a range: the first day of the first, and the day after the last. Equal if there are none. */
export function wholeSpans({ start, end }: Range): { from: string; to: string } {
  const spanMs = spanDays * dayMs
  const from = Math.ceil(Date.parse(start) / spanMs) * spanMs
  const to = Math.floor((Date.parse(end) + dayMs) / spanMs) * spanMs
  return from < to ? { from: dayOf(from), to: dayOf(to) } : { from: start, to: start }
}
