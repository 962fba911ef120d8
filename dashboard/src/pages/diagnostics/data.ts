import { queryOptions } from '@tanstack/react-query'
import { api, read, unwrapPage } from '../../session/api.ts'

const loadPage = (cursor: string | undefined, signal: AbortSignal) =>
  unwrapPage(api.GET('/diagnostics/refusals', { params: { query: { limit: 100, ...(cursor && { cursor }) } }, signal }))

export type Refusal = Awaited<ReturnType<typeof loadPage>>['page']['refusals'][number]

/** Loads all refusals, which are at most 200. They are looked at while something is being fixed, so they're polled. */
export const refusalsQuery = queryOptions({
  queryKey: ['refusals', 'all'],
  async queryFn({ signal }) {
    const refusals: Refusal[] = []
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const { page, next_cursor } = await loadPage(cursor, signal)
      refusals.push(...page.refusals)
      cursor = next_cursor
    }
    return refusals
  },
  refetchInterval: 5_000,
})

export const warningsQuery = read(['warnings'], (signal) => api.GET('/diagnostics/warnings', { signal }))
