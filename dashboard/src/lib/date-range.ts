export interface DateRange {
  start_date: string
  end_date: string
}

const dayMs = 24 * 60 * 60 * 1_000
const isoDay = (time: number) => new Date(time).toISOString().slice(0, 10)

/** The days of a period such as `30` (the last 30 days) or `2026-01-01_2026-02-01`. Days are UTC, as in reports. */
export function readRange(text: string, now = Date.now()): DateRange {
  const [, start_date, end_date] = /^(\d{4}-\d\d-\d\d)_(\d{4}-\d\d-\d\d)$/.exec(text) ?? []
  if (start_date && end_date) return { start_date, end_date }
  const days = Math.min(Math.max(Number.parseInt(text, 10) || 30, 1), 365)
  return { start_date: isoDay(now - (days - 1) * dayMs), end_date: isoDay(now) }
}

/** Every day of a period, for charts: days without usage aren't reported. */
export function daysOf({ start_date, end_date }: DateRange): string[] {
  const [first, last] = [Date.parse(start_date), Date.parse(end_date)]
  const count = Math.max(Math.min(Math.round((last - first) / dayMs) + 1, 3_660), 0)
  return Array.from({ length: count }, (_, index) => isoDay(first + index * dayMs))
}

/** The period of the same length before. */
export function rangeBefore(range: DateRange): DateRange {
  const length = daysOf(range).length
  const start = Date.parse(range.start_date)
  return { start_date: isoDay(start - length * dayMs), end_date: isoDay(start - dayMs) }
}
