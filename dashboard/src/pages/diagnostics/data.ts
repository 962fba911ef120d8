import { queryOptions } from '@tanstack/react-query'
import { api, read, unwrap } from '../../session/api.ts'

const loadPage = (offset: number, signal: AbortSignal) =>
  unwrap(api.GET('/diagnostics/refusals', { params: { query: { limit: 100, offset } }, signal }))

export type Refusal = Awaited<ReturnType<typeof loadPage>>['refusals'][number]

/** Loads all refusals, which are at most 200. They are looked at while something is being fixed, so they're polled. */
export const refusalsQuery = queryOptions({
  queryKey: ['refusals', 'all'],
  async queryFn({ signal }) {
    const { refusals, total } = await loadPage(0, signal)
    return total > refusals.length ? [...refusals, ...(await loadPage(refusals.length, signal)).refusals] : refusals
  },
  refetchInterval: 5_000,
})

export const warningsQuery = read(['warnings'], (signal) => api.GET('/diagnostics/warnings', { signal }))
