/** Budgets are for UTC days and UTC months. */
export type Period = 'day' | 'month'

/** The first day of the period that a moment is in. */
export function startOf(period: Period, at: Date): string {
  const day = at.toISOString().slice(0, 10)
  return period === 'day' ? day : `${day.slice(0, 7)}-01`
}

/** When the next period begins. */
export function resetOf(period: Period, at: Date): string {
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()]
  const next = period === 'day' ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1)
  return new Date(next).toISOString()
}
