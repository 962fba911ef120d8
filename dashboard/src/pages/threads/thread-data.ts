import type { components } from '@inlay/client'
import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query'
import { api, unwrap } from '../../session/api.ts'
import { useOrganization } from '../../session/me.ts'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { t } from './texts.ts'

export type Thread = components['schemas']['Thread']
export type Run = components['schemas']['Run']
export type ThreadPage = components['schemas']['MessageList'] & { runs: ReadonlyMap<string, Run> }

interface Change {
  threads: readonly Thread[]
  status: Thread['status']
}

const messages = { regular: () => t.restored, archived: t.archived, deleted: () => t.deleted }

/** Archives, restores or deletes threads. Each of these can be undone. */
export function useThreadStatus(): (change: Change) => void {
  const queries = useQueryClient()
  async function set(threads: readonly Pick<Thread, 'id' | 'status'>[]) {
    for (const { id, status } of threads) {
      await unwrap(api.PATCH('/threads/{id}', { params: { path: { id } }, body: { status } }))
    }
  }
  const refresh = () =>
    Promise.all([
      queries.invalidateQueries({ queryKey: ['threads'] }),
      queries.invalidateQueries({ queryKey: ['end-users'] }),
    ])
  const undo = useMutation({
    mutationFn: set,
    onError: (error) => notifyError(t.failed, error),
    onSettled: refresh,
  })
  const change = useMutation({
    mutationFn: ({ threads, status }: Change) => set(threads.map(({ id }) => ({ id, status }))),
    onSuccess: (_, { threads, status }) =>
      notify(messages[status](threads.length), { undo: () => undo.mutate([...threads]) }),
    onError: (error) => notifyError(t.failed, error),
    onSettled: refresh,
  })
  return (wanted) => change.mutate(wanted)
}

const messagesAtOnce = 50

type NextLook = (pages: readonly ThreadPage[] | undefined) => number | false

/** The messages of a thread, with their runs for admins. `nextLook` says after how many milliseconds to read them again. */
export function useThreadMessages(id: string, options: { withReplaced: boolean; nextLook?: NextLook }) {
  const { withReplaced, nextLook = () => false } = options
  const { isAdmin } = useOrganization()
  return useInfiniteQuery({
    queryKey: ['threads', 'one', id, 'messages', { withReplaced, isAdmin }],
    initialPageParam: undefined as string | undefined,
    async queryFn({ pageParam, signal }): Promise<ThreadPage> {
      const query = {
        limit: messagesAtOnce,
        include_replaced: withReplaced ? ('true' as const) : ('false' as const),
        ...(pageParam && { cursor: pageParam }),
      }
      const params = { path: { id }, query }
      // As many runs as messages are enough: every run is a message.
      const [page, runs] = await Promise.all([
        unwrap(api.GET('/threads/{id}/messages', { params, signal })),
        isAdmin ? unwrap(api.GET('/threads/{id}/runs', { params, signal })) : { runs: [] as Run[] },
      ])
      return { ...page, runs: new Map(runs.runs.map((run) => [run.id, run])) }
    },
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: ({ state }) => nextLook(state.data?.pages),
  })
}
