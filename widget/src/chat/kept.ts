import type { TextStore } from '../kept/text-store.ts'

export interface ChatStorage {
  /** For this tab: `sessionStorage`. */
  tab: TextStore
  /** For all tabs: `localStorage`. */
  browser: TextStore
}

/** A message that the server hasn't accepted yet. */
export interface Outgoing {
  id: string
  threadId: string
  text: string
  skill: string | null
  createdAt: string
  /** Replaces the user's last message. */
  isEdit: boolean
  isRefused: boolean
}

/** What a visitor left in this tab for the user who signed in after them. */
export interface Left {
  /** The visitor's last thread, or empty if the server has none. */
  threadId: string
  /** Messages that couldn't be sent. */
  messages: Outgoing[]
}

/** What survives a reload, for one user. Nothing that the agent wrote is kept. */
export interface Kept {
  readThread(): string | undefined
  writeThread(id: string): void
  readDraft(threadId: string): string
  writeDraft(threadId: string, text: string): void
  readOutbox(): Outgoing[]
  writeOutbox(messages: readonly Outgoing[]): void
  readLeft(): Left
  writeLeft(left: Left): void
  /** The open thread's run, if it is in progress or waits for the user. */
  readActiveRun(): string | undefined
  writeActiveRun(runId: string | undefined): void
}

const maxOutgoing = 20
/** Maximum length of the messages that wait, as JSON. */
const maxOutboxLength = 64 * 1024
const maxDrafts = 20

export const fitsOutbox = (messages: readonly Outgoing[]): boolean =>
  messages.length <= maxOutgoing && JSON.stringify(messages).length <= maxOutboxLength

/** Opening it removes what other users left in this browser. */
export function openKept(storage: ChatStorage, userId: string): Kept {
  for (const store of [storage.tab, storage.browser])
    for (const key of store.keys()) {
      const [, owner] = key.split('/')
      if (owner !== undefined && owner !== userId) store.remove(key)
    }
  return findKept(storage, userId)
}

/** Keys are `<what>/<user>` or `<what>/<user>/<thread>`. */
export function findKept({ tab, browser }: ChatStorage, userId: string): Kept {
  const place = (what: string, ...more: string[]) => [what, userId, ...more].join('/')
  const draftPlace = (threadId: string) => place('draft', threadId)
  /** Threads with a draft, the newest last. */
  const readDrafts = () => readList(browser.read(place('drafts'))).filter((id) => typeof id === 'string')
  const writeOrRemove = (store: TextStore, key: string, text: string | undefined) =>
    text ? store.write(key, text) : store.remove(key)
  return {
    readThread: () => tab.read(place('thread')),
    writeThread: (id) => tab.write(place('thread'), id),
    readDraft: (threadId) => browser.read(draftPlace(threadId)) ?? '',
    writeDraft(threadId, text) {
      writeOrRemove(browser, draftPlace(threadId), text)
      const before = readDrafts()
      if (text && before.at(-1) === threadId) return
      const after = before.filter((id) => id !== threadId)
      if (text) after.push(threadId)
      for (const id of after.splice(0, after.length - maxDrafts)) browser.remove(draftPlace(id))
      if (after.length > 0 || before.length > 0) browser.write(place('drafts'), JSON.stringify(after))
    },
    readOutbox: () => readMessages(tab.read(place('outbox'))),
    writeOutbox(messages) {
      const kept = [...messages]
      // Refused messages are kept as long as there is room.
      while (!fitsOutbox(kept)) {
        const refused = kept.findIndex(({ isRefused }) => isRefused)
        kept.splice(Math.max(refused, 0), 1)
      }
      writeOrRemove(tab, place('outbox'), kept.length > 0 ? JSON.stringify(kept) : undefined)
    },
    readLeft() {
      const [threadId = '', messages] = tab.read(place('left'))?.split('\n') ?? []
      return { threadId, messages: readMessages(messages) }
    },
    writeLeft: ({ threadId, messages }) => tab.write(place('left'), `${threadId}\n${JSON.stringify(messages)}`),
    readActiveRun: () => tab.read(place(activePlace)),
    writeActiveRun: (runId) => writeOrRemove(tab, place(activePlace), runId),
  }
}

const activePlace = 'active'

/** Whether the agent was working or waiting for the user before the reload, in this tab. */
export const hadActiveRun = (tab: TextStore): boolean => tab.keys().some((key) => key.startsWith(`${activePlace}/`))

const readMessages = (json: string | undefined) => readList(json).filter(isOutgoing).slice(0, maxOutgoing)

function readList(json: string | undefined): unknown[] {
  try {
    const list: unknown = JSON.parse(json ?? '[]')
    return Array.isArray(list) ? list : []
  } catch {
    return []
  }
}

/** A former version may have stored something else. */
function isOutgoing(value: unknown): value is Outgoing {
  const { id, threadId, text, skill, createdAt, isEdit, isRefused } = (value ?? {}) as Partial<Outgoing>
  return (
    [id, threadId, text, createdAt].every((each) => typeof each === 'string') &&
    (skill === null || typeof skill === 'string') &&
    [isEdit, isRefused].every((each) => typeof each === 'boolean')
  )
}
