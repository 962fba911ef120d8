import type { components } from '@inlay/client'
import { useFilters } from '../../lib/filters.ts'
import { queryClient } from '../../session/api.ts'
import { serviceAccountsQuery } from '../../session/lists.ts'

export type Account = components['schemas']['ServiceAccount']
export type Role = Account['role']

export const refreshAccounts = (): Promise<void> =>
  queryClient.invalidateQueries({ queryKey: serviceAccountsQuery.queryKey })

/** What the page's URL says, besides the account that is open. */
export const useAccountFilters = () => useFilters({ create: '', sort: '', snippet: 'curl' })

export const isExpired = ({ expires_at }: Account): boolean =>
  expires_at !== null && Date.parse(expires_at) <= Date.now()

/** The day on which a moment falls, in the user's time zone, as a date field has it. */
export function dayOf(moment: string | null): string {
  if (moment === null) return ''
  const date = new Date(moment)
  const two = (value: number) => String(value).padStart(2, '0')
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
}

/** The end of a day in the user's time zone; null for no day. */
export const endOfDay = (day: string): string | null =>
  day === '' ? null : new Date(`${day}T23:59:59.999`).toISOString()
