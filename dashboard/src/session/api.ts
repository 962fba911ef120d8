import { createInlayClient } from '@inlay/client'
import { QueryClient, type QueryKey, queryOptions } from '@tanstack/react-query'
import { authorizedFetch } from './session.ts'

export const api = createInlayClient({ url: location.origin, fetch: authorizedFetch })

/** A refused request, in the API's own words. */
export class ApiError extends Error {
  override name = 'ApiError'
  readonly status: number
  /** The innermost code, which names the reason. */
  readonly code: string
  readonly data: Record<string, unknown>
  /** For questions to the operator. */
  readonly requestId: string | undefined

  constructor(response: Response, body: unknown) {
    const {
      message,
      code,
      data = {},
    } = (body ?? {}) as { message?: string; code?: string; data?: Record<string, unknown> }
    const detail = data.details ?? data.reason
    super(typeof detail === 'string' ? `${message}: ${detail}` : (message ?? response.statusText))
    this.status = response.status
    this.code = String(data.code ?? code ?? response.status)
    this.data = data
    this.requestId = response.headers.get('x-request-id') ?? undefined
  }
}

type Answer<Data> = { data?: Data; error?: unknown; response: Response }

export async function unwrap<Data>(answer: Promise<Answer<Data>>): Promise<Data> {
  const { data, error, response } = await answer
  if (!response.ok || error !== undefined) throw new ApiError(response, error)
  return data as Data
}

interface ListPage<Data> {
  page: Data
  next_cursor: string | null
}

/** The response of a list, and the cursor of its next page. */
export async function unwrapPage<Data>(answer: Promise<Answer<Data>>): Promise<ListPage<Data>> {
  const page = await unwrap(answer)
  return { page, next_cursor: (await answer).response.headers.get('next-cursor') }
}

/** A query for `useQuery` of a list that is shown as a whole. Its pages are read one after the other. */
export const readList = <Data, Row>(
  queryKey: QueryKey,
  call: (page: { limit: number; cursor?: string }, signal: AbortSignal) => Promise<Answer<Data>>,
  rowsOf: (page: Data) => readonly Row[],
) =>
  queryOptions({
    queryKey,
    async queryFn({ signal }) {
      const rows: Row[] = []
      let cursor: string | null = null
      do {
        const answer: ListPage<Data> = await unwrapPage(call({ limit: 100, ...(cursor && { cursor }) }, signal))
        rows.push(...rowsOf(answer.page))
        cursor = answer.next_cursor
      } while (cursor !== null)
      return rows
    },
  })

/** A query for `useQuery`, from a call of the API. */
export const read = <Data>(queryKey: QueryKey, call: (signal: AbortSignal) => Promise<Answer<Data>>) =>
  queryOptions({ queryKey, queryFn: ({ signal }) => unwrap(call(signal)) })

const isWorthRetrying = (error: Error) => !(error instanceof ApiError) || error.status === 503

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      retry: (count, error) => count < 2 && isWorthRetrying(error),
      retryDelay: (count) => 300 * 2 ** count,
    },
  },
})
