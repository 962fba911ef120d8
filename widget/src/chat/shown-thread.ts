import { steeringIds } from './chunks.ts'
import { isUnsent } from './delivery.ts'
import type { Kept } from './kept.ts'
import { isActive } from './merge.ts'
import type { OpenThread } from './open-thread.ts'
import type { ShownState } from './shown-state.ts'
import type { AgentEntry, Entry, ToolEntryPart } from './state.ts'
import type { Threads } from './thread-list.ts'

/** Shows the open thread, and notices what is new in it. */
export interface ShownThread {
  /** After each change of the thread. */
  show(): void
  /** After each change of the list of threads, which has titles. */
  showList(): void
  /** Another user is there, with the run that the tab showed before a reload. */
  startOver(kept: Kept): void
}

interface ShownThreadOptions {
  thread: OpenThread
  threads: Threads
  shown: ShownState
  /** The agent asks the user about a call. */
  onAsked(event: { type: 'asked'; threadId: string; messageId: string; callId: string }): void
}

const longestFallbackTitle = 80

export function createShownThread({ thread, threads, shown, onAsked }: ShownThreadOptions): ShownThread {
  let kept: Kept | undefined
  let activeRun: string | undefined
  /** The last message of the open thread that came from elsewhere. */
  let elsewhere: string | undefined
  let lastMessage: string | undefined
  /** Calls that the user was asked about. */
  const asked = new Set<string>()

  /** A message that this tab didn't send is the last one, and wasn't there when the thread was read. */
  function findElsewhere(): void {
    const { state } = shown
    const holder = thread.entries.findLast((entry) => messageIds(entry).length > 0)
    const last = holder && messageIds(holder).at(-1)
    if (last === lastMessage && thread.id === state.threadId) return
    lastMessage = last
    const isSent = holder !== undefined && !isUnsent(holder)
    const isRead = thread.id === state.threadId && !state.isLoading
    const isKnown = state.entries.some((entry) => messageIds(entry).some((id) => id === last))
    elsewhere = isSent && isRead && !isKnown ? last : undefined
  }

  function keepActiveRun(runId: string | undefined): void {
    // While the thread is read for the first time, nothing is known.
    if (runId === activeRun || thread.isLoading) return
    activeRun = runId
    kept?.writeActiveRun(runId)
  }

  function findTitle(): string | null {
    const listed = threads.list.threads.find(({ id }) => id === thread.id)?.title
    if (listed) return listed
    const first = thread.hasEarlier ? undefined : thread.entries.find(({ role }) => role === 'user')
    return first?.role === 'user' ? first.text.slice(0, longestFallbackTitle) : null
  }

  return {
    show() {
      const { id: threadId, entries, hasEarlier, isLoading } = thread
      const run = entries.findLast((entry) => entry.role === 'assistant')
      const questions = run && isActive(run) ? run.parts.filter(isQuestion) : []
      findElsewhere()
      shown.update({
        threadId,
        title: findTitle(),
        entries,
        hasEarlier,
        isLoading,
        isWorking: run?.status === 'running',
        elsewhere,
        questions: isEqualList(questions, shown.state.questions) ? shown.state.questions : questions,
      })
      keepActiveRun(run && isActive(run) ? run.id : undefined)
      for (const { callId } of questions) {
        if (asked.has(callId)) continue
        asked.add(callId)
        onAsked({ type: 'asked', threadId, messageId: run?.id ?? '', callId })
      }
    },
    showList: () => shown.update({ threads: threads.list, title: findTitle() }),
    startOver(next) {
      kept = next
      activeRun = next.readActiveRun()
      asked.clear()
    },
  }
}

/** The user's messages in an entry: itself, or those that entered during the run. */
const messageIds = (entry: Entry): string[] => (entry.role === 'user' ? [entry.id] : steeringIds(entry.parts))

const isQuestion = (part: AgentEntry['parts'][number]): part is ToolEntryPart =>
  part.kind === 'tool' && part.state === 'asking'

const isEqualList = <Item>(one: readonly Item[], other: readonly Item[]) =>
  one.length === other.length && one.every((item, index) => item === other[index])
