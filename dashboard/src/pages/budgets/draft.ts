import type { components } from '@inlay/client'

export type Budgets = components['schemas']['Budgets']
type Budget = components['schemas']['Budget']
export type Period = components['schemas']['BudgetPeriod']
export type LimitName = keyof Budget | keyof Budgets['anonymous_shares']
export type Scope = 'organization' | 'end_user_default' | 'anonymous' | 'anonymous_shares'
export type ScopeLimits = Partial<Record<LimitName, number | null>>
/** What the user has typed, by whose limit it is. */
export type Draft = Partial<Record<Scope, Partial<Record<LimitName, string>>>>

export const budgetNames = ['day_tokens', 'month_tokens', 'day_cost_micro_usd', 'month_cost_micro_usd'] as const
export const shareNames = ['day_tokens_per_visitor', 'day_tokens_per_address', 'day_tokens_per_key'] as const

export const isMoney = (name: LimitName): boolean => name.endsWith('micro_usd')

const microUsd = 1_000_000

export const toText = (name: LimitName, limit: number | null): string =>
  limit === null ? '' : String(isMoney(name) ? limit / microUsd : limit)

/** Null without a limit; undefined if the text isn't one. */
export function parseLimit(name: LimitName, text: string): number | null | undefined {
  const plain = text.replace(/[\s_$]/g, '')
  if (plain === '') return null
  const value = isMoney(name) ? parseDollars(plain) : parseTokens(plain)
  return value !== undefined && Number.isSafeInteger(value) ? value : undefined
}

/** Accepts separators, as in 500,000 or 500.000. */
function parseTokens(text: string): number | undefined {
  if (/^\d+$/.test(text)) return Number(text)
  return /^\d{1,3}([,.'’]\d{3})+$/.test(text) ? Number(text.replace(/\D/g, '')) : undefined
}

const parseDollars = (text: string): number | undefined =>
  /^\d+([.,]\d{1,6})?$/.test(text) ? Math.round(Number(text.replace(',', '.')) * microUsd) : undefined

/** The limits that differ from the saved ones, as the API wants them. */
export function changesOf(draft: Draft, saved: Record<Scope, ScopeLimits>): Partial<Record<Scope, ScopeLimits>> {
  const scopes = Object.entries(draft) as [Scope, Partial<Record<LimitName, string>>][]
  return Object.fromEntries(
    scopes.flatMap(([scope, texts]) => {
      const changed = Object.entries(texts).flatMap(([name, text]) => {
        const limit = parseLimit(name as LimitName, text)
        return limit === undefined || limit === saved[scope][name as LimitName] ? [] : [[name, limit] as const]
      })
      return changed.length > 0 ? [[scope, Object.fromEntries(changed)]] : []
    }),
  )
}
