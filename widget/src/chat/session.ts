import type { ClientMessageInput } from '@inlay/protocol'
import { newId } from '../kept/ids.ts'
import type { VisitorSecret } from '../kept/visitor-secret.ts'
import { type ChatUser, createAdoption } from './adoption.ts'
import { createAnswers } from './answers.ts'
import { askAbout, connectAccount, findActiveThread } from './arrival.ts'
import { type ChatStorage, type Kept, openKept } from './kept.ts'
import { createOpenThread } from './open-thread.ts'
import { createOutbox } from './outbox.ts'
import { createRequests } from './requests.ts'
import { createShownState } from './shown-state.ts'
import { createShownThread } from './shown-thread.ts'
import type { AgentEntry, ChatSession } from './state.ts'
import { createThreads } from './thread-list.ts'

/** What happens in conversations. Whether it is news depends on what the user sees. */
export type ChatEvent =
  | { type: 'sent'; threadId: string; messageId: string }
  | { type: 'answered'; threadId: string; messageId: string; status: AgentEntry['status'] }
  /** The agent asks the user about a call. */
  | { type: 'asked'; threadId: string; messageId: string; callId: string }

export interface ChatSessionOptions {
  /** Sends a message, or drops it if the socket isn't open. */
  send(message: ClientMessageInput): void
  /** `Date.now()` */
  now(): number
  storage: ChatStorage
  visitorSecret: VisitorSecret
  /** Origin of the page that embeds the frame. */
  pageOrigin: string
  /** Calls back before the screen is drawn: `requestAnimationFrame`. */
  schedule(callback: () => void): void
  onEvent(event: ChatEvent): void
}

export function createChatSession(options: ChatSessionOptions): ChatSession {
  const { storage } = options
  /** Unknown before the first connection. */
  let user: ChatUser | undefined
  let kept: Kept | undefined
  let isConnected = false
  /** With which the user is back from a third party. */
  let accountCode: string | undefined

  const now = () => new Date(options.now()).toISOString()
  const requests = createRequests(options.send)
  const { ask } = requests
  const shown = createShownState(options)
  const { update, showProblem, showRefusal, forgetProblem } = shown
  const thread = createOpenThread({
    ask,
    circumstances: () => ({
      pageOrigin: options.pageOrigin,
      now: now(),
      isStarting: answers.isRegenerating() || outbox.isSendingTo(thread.id),
      isEditing: outbox.isEditing(thread.id),
    }),
    onChange: () => shownThread.show(),
    onAnswered: ({ id, status }) => options.onEvent({ type: 'answered', threadId: thread.id, messageId: id, status }),
    onRefusal(refusal) {
      if (refusal.code === 'RESOURCE_NOT_FOUND') leaveMissingThread()
      else showRefusal(refusal)
    },
  })
  const threads = createThreads({ ask, onChange: () => shownThread.showList(), onRefusal: showRefusal })
  const shownThread = createShownThread({ thread, threads, shown, onAsked: options.onEvent })
  const answers = createAnswers({ ask, thread, shown })
  const outbox = createOutbox({
    ask,
    now,
    isConnected: () => isConnected,
    thread,
    keep: (messages) => kept?.writeOutbox(messages),
    onSent({ id, threadId }, { run_id, is_queued }) {
      adoption.sent(threadId)
      if (threadId === thread.id) thread.started({ runId: run_id, isQueued: is_queued, messageId: id })
      // The socket now follows the other thread.
      else thread.follow()
      options.onEvent({ type: 'sent', threadId, messageId: id })
    },
    onRefused({ threadId }, refusal) {
      if (threadId !== thread.id) return
      if (refusal.code === 'RESOURCE_NOT_FOUND') {
        showProblem('CONVERSATION_GONE')
        leaveMissingThread()
      } else {
        showRefusal(refusal)
        // Shows the message that wasn't replaced, and the answer to another tab's message.
        thread.refresh()
      }
    },
    onProblem: showProblem,
  })
  const { visitorSecret } = options
  const adoption = createAdoption({ ask, storage, visitorSecret, shown, thread, threads, outbox, moveTo })
  shownThread.show()

  /** Opens a thread with what this browser has of it. */
  function open(id: string, isNew = false, activeRun?: string): void {
    kept?.writeThread(id)
    update({ draft: kept?.readDraft(id) ?? '', problem: undefined })
    thread.open({ id, unsent: outbox.entriesOf(id), isNew, activeRun })
    if (isConnected) thread.follow()
  }

  /** The thread was deleted, or never existed because nothing was sent: what was typed moves to a new one. */
  function leaveMissingThread(): void {
    if (outbox.isSendingTo(thread.id)) return
    const id = newId()
    outbox.move(thread.id, id)
    moveTo(id, true)
  }

  /** Where the tab can't keep which thread was open, a reload continues the one in which the agent works or waits. */
  function openIfUnused(id: string): void {
    if (thread.entries.length === 0 && shown.state.draft === '') open(id)
  }

  /** Opens a thread with what is typed now. */
  function moveTo(id: string, isNew = false): void {
    const { draft, problem } = shown.state
    kept?.writeDraft(thread.id, '')
    open(id, isNew)
    setDraft(draft)
    update({ problem })
  }

  function setDraft(text: string): void {
    kept?.writeDraft(thread.id, text)
    update({ draft: text })
  }

  /** The message at the end of the thread, if the server doesn't have it. */
  const findLastUnsent = () => outbox.find(thread.entries.at(-1)?.id)

  /** Everything of the former user is removed, in this tab and in the browser, except what a visitor has typed. */
  function startOver(next: ChatUser): void {
    const isFirst = user === undefined
    const typed = isFirst ? outbox.messages : []
    const drafts = isFirst || (user?.isAnonymous && !next.isAnonymous) ? [shown.state.draft] : []
    const visitor = next.isAnonymous ? undefined : adoption.findVisitor()
    // The page was reloaded for signing in.
    if (isFirst && visitor) drafts.unshift(visitor.readDraft(visitor.readThread() ?? ''))
    const left = visitor?.readOutbox() ?? []
    user = next
    kept = openKept(storage, next.id)
    const known = kept.readThread()
    const threadId = known ?? newId()
    requests.clear()
    answers.startOver()
    outbox.startOver([...kept.readOutbox(), ...typed.map((one) => ({ ...one, threadId }))])
    shownThread.startOver(kept)
    threads.clear()
    update({ agent: undefined })
    open(threadId, known === undefined, kept.readActiveRun())
    setDraft([shown.state.draft, ...drafts].filter((text) => text !== '').join('\n'))
    adoption.startOver(next, kept, left)
  }

  /** Waits for the user whom the page signs in. */
  function completeAccount(): void {
    if (accountCode === undefined || !isConnected || user?.isAnonymous !== false) return
    connectAccount(ask, shown, accountCode)
    accountCode = undefined
  }

  function loseConnection(): void {
    isConnected = false
    requests.disconnected()
    outbox.showConnection()
  }

  return {
    get state() {
      return shown.state
    },
    subscribe: shown.subscribe,
    receive(message) {
      if (message.type === 'chat/chunk') thread.receiveChunks(message)
      else if (message.type === 'chat/end') thread.receiveEnd(message)
      else if ('request_id' in message) requests.receive(message)
    },
    connected(next) {
      if (isConnected) loseConnection()
      const isOther = user?.id !== next.id
      if (isOther) startOver(next)
      isConnected = true
      outbox.showConnection()
      requests.connected()
      askAbout(ask, shown)
      thread.follow()
      threads.reload()
      outbox.flush()
      completeAccount()
      if (isOther && !storage.tab.isLasting) findActiveThread(ask, shown, openIfUnused)
    },
    disconnected: loseConnection,

    send(text, skill) {
      // The page can send something else.
      const trimmed = typeof text === 'string' && text.trim()
      if (!trimmed) return
      forgetProblem()
      if (outbox.add(trimmed, skill ?? null, false) && trimmed === shown.state.draft.trim()) setDraft('')
    },
    edit(text) {
      const trimmed = text.trim()
      if (!trimmed) return
      forgetProblem()
      const unsent = findLastUnsent()
      if (!unsent && shown.state.isWorking) return showProblem('RUN_ACTIVE')
      const { skill = null } = unsent ?? thread.entries.findLast((entry) => entry.role === 'user') ?? {}
      outbox.add(trimmed, skill, unsent ? unsent.isEdit : thread.entries.length > 0, unsent)
    },
    regenerate() {
      const unsent = findLastUnsent()
      if (!unsent?.isRefused) return answers.regenerate()
      forgetProblem()
      outbox.retry(unsent)
    },
    stop: answers.stop,
    decide: answers.decide,
    rate: answers.rate,
    setDraft,
    loadEarlier: thread.loadEarlier,
    newThread() {
      forgetProblem()
      if (thread.entries.length > 0 || thread.isLoading) open(newId(), true)
    },
    openThread(id) {
      if (id !== thread.id) open(id)
    },
    listThreads: threads.load,
    renameThread(id, title) {
      forgetProblem()
      threads.rename(id, title)
    },
    archiveThread(id, isArchived) {
      forgetProblem()
      threads.archive(id, isArchived)
    },
    deleteThread(id) {
      forgetProblem()
      threads.remove(id)
      outbox.dropThread(id)
      kept?.writeDraft(id, '')
      if (id === thread.id) open(newId(), true)
    },
    connectAccount(code) {
      accountCode = code
      completeAccount()
    },
    adopt: adoption.answer,
  }
}
