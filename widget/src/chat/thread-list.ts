import type { NewRequest, Refusal, Requests } from './requests.ts'
import type { Thread, ThreadList } from './state.ts'

/** The user's conversations, as far as they were asked for. */
export interface Threads {
  readonly list: ThreadList
  load(options: { query?: string; isArchive?: boolean; isMore?: boolean }): void
  /** Loads the list again, if it was shown before. */
  reload(): void
  clear(): void
  rename(id: string, title: string): void
  archive(id: string, isArchived: boolean): void
  remove(id: string): void
}

interface ThreadsOptions {
  ask: Requests['ask']
  onChange(): void
  onRefusal(refusal: Refusal): void
}

const maxQueryLength = 200
const maxTitleLength = 200
const maxOffset = 10_000

export const noThreads: ThreadList = { threads: [], hasMore: false, isLoading: false, query: '', isArchive: false }

export function createThreads({ ask, onChange, onRefusal }: ThreadsOptions): Threads {
  let list = noThreads
  let wasShown = false
  /** Only the response to the latest request counts. */
  let turn = 0
  /** Changes without a response. A list would be read before or after them. */
  let changing = 0
  /** Offset of the list that waits for them. */
  let wanted: number | undefined

  function change(changes: Partial<ThreadList>): void {
    list = { ...list, ...changes }
    onChange()
  }

  function request(offset: number): void {
    wasShown = true
    turn += 1
    wanted = changing > 0 ? offset : undefined
    if (wanted !== undefined) return
    const mine = turn
    const { query, isArchive: archived } = list
    ask(
      { type: 'chat/threads', offset, archived, ...(query && { query }) },
      {
        kind: 'read',
        onResponse(response) {
          if (mine !== turn || response.type !== 'chat/thread-list') return
          const page = response.threads.map(
            ({ id, title, status, last_message_at, is_archived }): Thread => ({
              id,
              title,
              status,
              lastMessageAt: last_message_at,
              isArchived: is_archived,
            }),
          )
          const listed = new Set(page.map(({ id }) => id))
          const earlier = offset === 0 ? [] : list.threads.filter(({ id }) => !listed.has(id))
          change({ threads: [...earlier, ...page], hasMore: response.has_more, isLoading: false })
        },
        onRefusal(refusal) {
          if (mine !== turn) return
          change({ isLoading: false })
          onRefusal(refusal)
        },
      },
    )
  }

  function reload(): void {
    if (wasShown) request(0)
  }

  /** Shows the change immediately, and the server's list again if it is refused. */
  function alter(message: NewRequest, threads: Thread[], isDone: (refusal: Refusal) => boolean = () => false): void {
    change({ threads })
    changing += 1
    const changed = () => {
      changing -= 1
      if (wanted !== undefined) request(wanted)
    }
    ask(message, {
      kind: 'keep',
      onResponse: changed,
      onRefusal(refusal) {
        if (!isDone(refusal)) {
          onRefusal(refusal)
          reload()
        }
        changed()
      },
    })
  }

  return {
    get list() {
      return list
    },
    load({ query = list.query, isArchive = list.isArchive, isMore = false }) {
      const trimmed = query.trim().slice(0, maxQueryLength)
      const offset = isMore ? list.threads.length : 0
      if (isMore && (list.isLoading || !list.hasMore || offset > maxOffset)) return
      const isOther = isArchive !== list.isArchive
      change({ query: trimmed, isArchive, isLoading: true, ...(isOther && { threads: [], hasMore: false }) })
      request(offset)
    },
    reload,
    clear() {
      turn += 1
      changing = 0
      wanted = undefined
      wasShown = false
      change(noThreads)
    },
    rename(id, title) {
      const trimmed = title.trim().slice(0, maxTitleLength)
      if (!trimmed) return
      const renamed = list.threads.map((thread) => (thread.id === id ? { ...thread, title: trimmed } : thread))
      alter({ type: 'chat/change-thread', thread_id: id, title: trimmed }, renamed)
    },
    archive(id, isArchived) {
      const others = list.threads.filter((thread) => thread.id !== id)
      alter({ type: 'chat/change-thread', thread_id: id, archived: isArchived }, others)
    },
    remove(id) {
      const others = list.threads.filter((thread) => thread.id !== id)
      // Another tab may have deleted it.
      alter({ type: 'chat/delete-thread', thread_id: id }, others, ({ code }) => code === 'RESOURCE_NOT_FOUND')
    },
  }
}
