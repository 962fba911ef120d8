import type { Sql } from './database.ts'

/** A list whose total is kept by triggers on its table, because counting reads every row. */
type KeptList = 'end_users' | `threads/${'regular' | 'archived' | 'deleted'}` | `usage_rankings/${string}`

interface Totals {
  items: number
  messages: number
  tokens: number
}

export async function readTotals(sql: Sql, lists: readonly KeptList[]): Promise<Totals> {
  const [totals] = await sql<Totals>`
    select coalesce(sum(items), 0) as items, coalesce(sum(messages), 0) as messages, coalesce(sum(tokens), 0) as tokens
    from list_totals where list = any(${lists})`
  return totals as Totals
}
