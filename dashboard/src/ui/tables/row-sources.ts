import { useInfiniteQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { RowSource } from './data-table.tsx'

export const pageSize = 100

interface Source<Row extends object> {
  rows: RowSource<Row> | undefined
  /** Length of the whole list, if the API knows it. */
  total: number | undefined
  error: Error | null
  refetch: () => unknown
}

interface CursorPage<Row> {
  rows: Row[]
  next_cursor: string | null
  total?: number
}

/** A list that is loaded page after page, as far as the user scrolls. */
export function useCursorRows<Row extends object>(
  key: readonly unknown[],
  load: (cursor: string | undefined, signal: AbortSignal) => Promise<CursorPage<Row>>,
): Source<Row> {
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetching } = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => load(pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  })
  const all = useMemo(() => data?.pages.flatMap((page) => page.rows), [data])
  // One more row stands for what isn't loaded yet.
  const rows = all && {
    count: all.length + (hasNextPage ? 1 : 0),
    at: (index: number) => all[index],
    show(_: number, last: number) {
      if (hasNextPage && !isFetching && last >= all.length - 1) void fetchNextPage()
    },
  }
  return { rows, total: data?.pages[0]?.total, error, refetch }
}
