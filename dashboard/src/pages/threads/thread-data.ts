import type { components } from '@inlay/client'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api, read, unwrap } from '../../session/api.ts'
import { notify, notifyError } from '../../ui/toasts.tsx'
import { t } from './texts.ts'

export type Thread = components['schemas']['Thread']

export const sitesQuery = read(['sites'], (signal) => api.GET('/sites', { signal }))

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
