import { useInfiniteQuery, useQueries, useQuery } from '@tanstack/react-query'
import { useCallback, useMemo, useState } from 'react'
import type { RowSource } from './data-table.tsx'

export const pageSize = 100

interface Source<Row extends object> {
  rows: RowSource<Row> | undefined
  error: Error | null
  refetch: () => unknown
}

interface OffsetPage<Row> {
  rows: Row[]
  total: number
}

/** A list with a known length, of which any part can be requested. Only the pages that are visible are loaded. */
export function useOffsetRows<Row extends object>(
  key: readonly unknown[],
  load: (offset: number, signal: AbortSignal) => Promise<OffsetPage<Row>>,
): Source<Row> {
  const [[first, last], setShown] = useState<[number, number]>([0, 0])
  const pageQuery = (page: number) => ({
    queryKey: [...key, { page }],
    queryFn: ({ signal }: { signal: AbortSignal }) => load(page * pageSize, signal),
  })
  const start = useQuery(pageQuery(0))
  const total = start.data?.total
  const visible = Array.from({ length: last - first + 1 }, (_, index) => first + index).filter((page) => page > 0)
  const others = useQueries({ queries: visible.map(pageQuery) })
  const pages = new Map(visible.map((page, index) => [page, others[index]?.data]))
  pages.set(0, start.data)
  const show = useCallback((from: number, to: number) => {
    const next: [number, number] = [Math.floor(from / pageSize), Math.floor(to / pageSize)]
    setShown((known) => (known[0] === next[0] && known[1] === next[1] ? known : next))
  }, [])
  return {
    rows:
      total === undefined
        ? undefined
        : { count: total, at: (index) => pages.get(Math.floor(index / pageSize))?.rows[index % pageSize], show },
    error: start.error,
    refetch: start.refetch,
  }
}

interface CursorPage<Row> {
  rows: Row[]
  next_cursor: string | null
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
  return { rows, error, refetch }
}
