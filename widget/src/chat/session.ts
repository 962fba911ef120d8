import type { ClientMessageInput } from '@inlay/protocol'
import { maxChatMessageLength } from '@inlay/protocol/values'
import { newId } from '../kept/ids.ts'
import type { VisitorSecret } from '../kept/visitor-secret.ts'
import { steeringIds } from './chunks.ts'
import { type ChatStorage, findKept, fitsOutbox, type Kept, type Left, type Outgoing, openKept } from './kept.ts'
import { isActive } from './merge.ts'
import { createOpenThread } from './open-thread.ts'
import { createRequests, type Refusal, type ResponseOf } from './requests.ts'
import type {
  AgentEntry,
  AgentInfo,
  ChatSession,
  ChatState,
  Entry,
  OwnProblem,
  ToolEntryPart,
  UserEntry,
} from './state.ts'
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

/** Where a tab keeps the ID and the last thread of a visitor, who may sign in. */
const visitorPlace = 'visitor'
const visitorThreadPlace = 'visitor-thread'
const nothing: Left = { threadId: '', messages: [] }
const longestFallbackTitle = 80

export function createChatSession(options: ChatSessionOptions): ChatSession {
  const { storage, visitorSecret } = options
  const requests = createRequests(options.send)
  const listeners = new Set<() => void>()
  let isScheduled = false
  /** Unknown before the first connection. */
  let user: { id: string; isAnonymous: boolean } | undefined
  let kept: Kept | undefined
  let isConnected = false
  let outbox: readonly Outgoing[] = []
  /** The message that was sent and has no response yet. One at a time, so that they arrive in order. */
  let sendingId: string | undefined
  let isRegenerating = false
  let activeRun: string | undefined
  /** With which the user is back from a third party. */
  let accountCode: string | undefined
  let left = nothing
  /** The last message of the open thread that came from elsewhere. */
  let elsewhere: string | undefined
  let lastMessage: string | undefined
  /** Calls that the user was asked about. */
  const asked = new Set<string>()

  const thread = createOpenThread({
    ask: requests.ask,
    now: options.now,
    pageOrigin: options.pageOrigin,
    isStarting: () => isRegenerating || outbox.some(({ id, threadId }) => id === sendingId && threadId === thread.id),
    isEditing: () => outbox.some((one) => one.threadId === thread.id && one.isEdit && !one.isRefused),
    onChange: showThread,
    onAnswered: ({ id, status }) => options.onEvent({ type: 'answered', threadId: thread.id, messageId: id, status }),
    onRefusal(refusal) {
      if (refusal.code === 'RESOURCE_NOT_FOUND') leaveMissingThread()
      else showRefusal(refusal)
    },
  })
  const threads = createThreads({
    ask: requests.ask,
    onChange: () => update({ threads: threads.list, title: findTitle() }),
    onRefusal: showRefusal,
  })

  let state: ChatState = {
    agent: undefined,
    threadId: '',
    title: null,
    entries: [],
    hasEarlier: false,
    isLoading: false,
    isWorking: false,
    questions: [],
    problem: undefined,
    threads: threads.list,
    draft: '',
    connectedService: undefined,
    canAdopt: false,
    elsewhere: undefined,
  }
  thread.open({ id: newId(), unsent: [], isNew: true })

  function update(changes: Partial<ChatState>): void {
    state = { ...state, ...changes }
    if (isScheduled) return
    isScheduled = true
    options.schedule(() => {
      isScheduled = false
      for (const listener of listeners) listener()
    })
  }

  function showThread(): void {
    const { id: threadId, entries, hasEarlier, isLoading } = thread
    const run = entries.findLast((entry) => entry.role === 'assistant')
    const questions = run && isActive(run) ? run.parts.filter(isQuestion) : []
    findElsewhere()
    update({
      threadId,
      title: findTitle(),
      entries,
      hasEarlier,
      isLoading,
      isWorking: run?.status === 'running',
      elsewhere,
      questions: isEqualList(questions, state.questions) ? state.questions : questions,
    })
    keepActiveRun(run && isActive(run) ? run.id : undefined)
    for (const { callId } of questions) {
      if (asked.has(callId)) continue
      asked.add(callId)
      options.onEvent({ type: 'asked', threadId, messageId: run?.id ?? '', callId })
    }
  }

  /** A message that this tab didn't send is the last one, and wasn't there when the thread was read. */
  function findElsewhere(): void {
    const holder = thread.entries.findLast((entry) => messageIds(entry).length > 0)
    const last = holder && messageIds(holder).at(-1)
    if (last === lastMessage && thread.id === state.threadId) return
    lastMessage = last
    const isSent = holder?.role === 'assistant' || holder?.delivery === 'delivered' || holder?.delivery === 'queued'
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

  /** The panel has the texts of these problems. */
  const showProblem = (code: OwnProblem) => update({ problem: { code, message: '' } })

  function showRefusal({ code, message, values, retry_after_ms: ms }: Refusal): void {
    update({
      problem: { code, message, ...(values && { values }), ...(ms !== undefined && { retryAt: options.now() + ms }) },
    })
  }

  const forgetProblem = () => {
    if (state.problem || state.connectedService) update({ problem: undefined, connectedService: undefined })
  }

  /** Opens a thread with what this browser has of it. */
  function open(
    id: string,
    { isNew = false, activeRun }: { isNew?: boolean; activeRun?: string | undefined } = {},
  ): void {
    kept?.writeThread(id)
    update({ draft: kept?.readDraft(id) ?? '', problem: undefined })
    const unsent = outbox.filter(({ threadId }) => threadId === id).map(describeOutgoing)
    thread.open({ id, unsent, isNew, activeRun })
    if (isConnected) thread.follow()
  }

  /** The thread was deleted, or never existed because nothing was sent: what was typed moves to a new one. */
  function leaveMissingThread(): void {
    const missing = thread.id
    if (outbox.some(({ id, threadId }) => threadId === missing && id === sendingId)) return
    const id = newId()
    keepOutbox(outbox.map((one) => (one.threadId === missing ? { ...one, threadId: id, isEdit: false } : one)))
    moveTo(id, true)
  }

  /** Opens a thread with what is typed now. */
  function moveTo(id: string, isNew = false): void {
    const { draft, problem } = state
    kept?.writeDraft(thread.id, '')
    open(id, { isNew })
    setDraft(draft)
    update({ problem })
  }

  function setDraft(text: string): void {
    kept?.writeDraft(thread.id, text)
    update({ draft: text })
  }

  function keepOutbox(next: readonly Outgoing[]): void {
    outbox = next
    kept?.writeOutbox(next)
  }

  const describeOutgoing = ({ id, text, skill, createdAt, isRefused }: Outgoing): UserEntry => ({
    role: 'user',
    id,
    text,
    skill,
    createdAt,
    delivery: isRefused ? 'refused' : isConnected ? 'sending' : 'waiting',
  })

  const dropOutgoing = (id: string) => keepOutbox(outbox.filter((one) => one.id !== id))

  /** Shows a message, and sends it after those that wait. Returns whether there was room for it. */
  function enqueue(text: string, skill: string | null, isEdit: boolean, unsent?: Outgoing): boolean {
    if (text.length > maxChatMessageLength) {
      showProblem('MESSAGE_TOO_LONG')
      return false
    }
    const createdAt = new Date(options.now()).toISOString()
    const added: Outgoing = { id: newId(), threadId: thread.id, text, skill, createdAt, isEdit, isRefused: false }
    const others = outbox.filter((one) => one !== unsent)
    if (!fitsOutbox([...others.filter(({ isRefused }) => !isRefused), added])) {
      showProblem('TOO_MANY_WAITING')
      return false
    }
    keepOutbox([...others, added])
    if (unsent) thread.removeEntry(unsent.id)
    // An edit that waits has already taken the former message out.
    if (isEdit && (!unsent || unsent.isRefused)) thread.cutLastTurn()
    thread.addMessage(describeOutgoing(added))
    flush()
    return true
  }

  /** Sends a refused message again. */
  function retry(refused: Outgoing): void {
    const again = { ...refused, isRefused: false }
    keepOutbox(outbox.map((one) => (one === refused ? again : one)))
    if (again.isEdit) thread.cutLastTurn()
    thread.addMessage(describeOutgoing(again))
    flush()
  }

  /** Sends the first message that waits. */
  function flush(): void {
    const next = outbox.find(({ isRefused }) => !isRefused)
    if (!isConnected || sendingId !== undefined || !next) return
    const { id, threadId, text, skill, isEdit } = next
    sendingId = id
    requests.ask(
      {
        type: 'chat/send',
        thread_id: threadId,
        trigger: isEdit ? 'edit-message' : 'submit-message',
        message: { id, text, ...(skill !== null && { skill }) },
      },
      {
        kind: 'keep',
        onResponse(response) {
          if (response.type === 'chat/start') sent(next, response)
          flush()
        },
        onRefusal(refusal) {
          refused(next, refusal)
          flush()
        },
      },
    )
  }

  function sent({ id, threadId }: Outgoing, { run_id, is_queued }: ResponseOf<'chat/start'>): void {
    sendingId = undefined
    dropOutgoing(id)
    if (user?.isAnonymous) storage.tab.write(visitorThreadPlace, threadId)
    if (threadId === thread.id) thread.started({ runId: run_id, isQueued: is_queued, messageId: id })
    // The socket now follows the other thread.
    else thread.follow()
    options.onEvent({ type: 'sent', threadId, messageId: id })
  }

  function refused({ id, threadId }: Outgoing, refusal: Refusal): void {
    sendingId = undefined
    keepOutbox(outbox.map((one) => (one.id === id ? { ...one, isRefused: true } : one)))
    if (threadId !== thread.id) return
    thread.changeMessage(id, 'refused')
    if (refusal.code === 'RESOURCE_NOT_FOUND') {
      showProblem('CONVERSATION_GONE')
      leaveMissingThread()
      return
    }
    showRefusal(refusal)
    // Shows the message that wasn't replaced, and the answer to another tab's message.
    thread.refresh()
  }

  /** The message at the end of the thread, if the server doesn't have it. */
  const findLastUnsent = () => outbox.find(({ id }) => id === thread.entries.at(-1)?.id && id !== sendingId)

  /** Everything of the former user is removed, in this tab and in the browser, except what a visitor has typed. */
  function startOver(next: { id: string; isAnonymous: boolean }): void {
    const isFirst = user === undefined
    const typed = isFirst ? outbox : []
    const drafts = isFirst || (user?.isAnonymous && !next.isAnonymous) ? [state.draft] : []
    const visitorId = next.isAnonymous ? undefined : storage.tab.read(visitorPlace)
    const visitor = visitorId === undefined ? undefined : findKept(storage, visitorId)
    // The page was reloaded for signing in.
    if (isFirst && visitor) drafts.unshift(visitor.readDraft(visitor.readThread() ?? ''))
    const messages = visitor?.readOutbox() ?? []
    requests.clear()
    sendingId = undefined
    isRegenerating = false
    asked.clear()
    user = next
    kept = openKept(storage, next.id)
    const known = kept.readThread()
    const threadId = known ?? newId()
    keepOutbox([...kept.readOutbox(), ...typed.map((one) => ({ ...one, threadId }))])
    activeRun = kept.readActiveRun()
    threads.clear()
    update({ agent: undefined })
    open(threadId, { isNew: known === undefined, activeRun })
    setDraft([state.draft, ...drafts].filter((text) => text !== '').join('\n'))
    offerAdoption(kept, messages)
  }

  /** What a visitor leaves is only offered to the first user who signs in after it. */
  function offerAdoption(mine: Kept, messages: Outgoing[]): void {
    if (user?.isAnonymous) storage.tab.write(visitorPlace, user.id)
    else {
      const threadId = storage.tab.read(visitorThreadPlace) ?? ''
      for (const place of [visitorPlace, visitorThreadPlace]) storage.tab.remove(place)
      if (threadId || messages.length > 0) mine.writeLeft({ threadId, messages })
    }
    left = mine.readLeft()
    update({ canAdopt: left.threadId !== '' || left.messages.length > 0 })
  }

  function forgetLeft(): void {
    left = nothing
    kept?.writeLeft(nothing)
    update({ canAdopt: false })
  }

  /** Sends what the visitor couldn't send, in the open thread. */
  function sendLeft(messages: readonly Outgoing[]): void {
    forgetLeft()
    const moved = messages.map((one) => ({ ...one, threadId: thread.id, isEdit: false }))
    keepOutbox([...outbox, ...moved])
    for (const one of moved) thread.addMessage(describeOutgoing(one))
    flush()
  }

  /** Where the tab can't keep which thread was open, a reload continues the one in which the agent works or waits. */
  function findActiveThread(): void {
    requests.ask(
      { type: 'chat/threads' },
      {
        kind: 'read',
        onResponse(response) {
          const newest = response.type === 'chat/thread-list' ? response.threads[0] : undefined
          const isUnused = thread.entries.length === 0 && state.draft === ''
          if (isUnused && (newest?.status === 'running' || newest?.status === 'waiting')) open(newest.id)
        },
        onRefusal: showRefusal,
      },
    )
  }

  function askAbout(): void {
    requests.ask(
      { type: 'chat/about' },
      {
        kind: 'read',
        onResponse: (response) => response.type === 'chat/agent' && update({ agent: describeAgent(response) }),
        onRefusal: showRefusal,
      },
    )
  }

  /** Waits for the user whom the page signs in. */
  function completeAccount(): void {
    if (accountCode === undefined || !isConnected || user?.isAnonymous !== false) return
    const code = accountCode
    accountCode = undefined
    requests.ask(
      { type: 'chat/connect', code },
      {
        kind: 'once',
        onResponse(response) {
          if (response.type === 'chat/connected') update({ connectedService: response.connector })
        },
        onRefusal: showRefusal,
      },
    )
  }

  function markUnsent(delivery: 'waiting' | 'sending'): void {
    for (const { id, isRefused } of outbox) if (!isRefused) thread.changeMessage(id, delivery)
  }

  function loseConnection(): void {
    isConnected = false
    requests.disconnected()
    markUnsent('waiting')
  }

  return {
    get state() {
      return state
    },
    subscribe(onChange) {
      listeners.add(onChange)
      return () => void listeners.delete(onChange)
    },
    receive(message) {
      if (message.type === 'chat/chunk') thread.receiveChunks(message)
      else if (message.type === 'chat/end') thread.receiveEnd(message)
      else if ('request_id' in message) requests.receive(message)
    },
    connected({ id, isAnonymous }) {
      if (isConnected) loseConnection()
      const isOther = user?.id !== id
      if (isOther) startOver({ id, isAnonymous })
      isConnected = true
      markUnsent('sending')
      requests.connected()
      askAbout()
      thread.follow()
      threads.reload()
      flush()
      completeAccount()
      if (isOther && !storage.tab.isLasting) findActiveThread()
    },
    disconnected: loseConnection,

    send(text, skill) {
      // The page can send something else.
      const trimmed = typeof text === 'string' && text.trim()
      if (!trimmed) return
      forgetProblem()
      if (enqueue(trimmed, skill ?? null, false) && trimmed === state.draft.trim()) setDraft('')
    },
    edit(text) {
      const trimmed = text.trim()
      if (!trimmed) return
      forgetProblem()
      const unsent = findLastUnsent()
      if (!unsent && state.isWorking) return showProblem('RUN_ACTIVE')
      const { skill = null } = unsent ?? thread.entries.findLast((entry) => entry.role === 'user') ?? {}
      enqueue(trimmed, skill, unsent ? unsent.isEdit : thread.entries.length > 0, unsent)
    },
    regenerate() {
      forgetProblem()
      const unsent = findLastUnsent()
      if (unsent?.isRefused) return retry(unsent)
      if (isRegenerating) return
      isRegenerating = true
      const { id } = thread
      const replaces = thread.entries.findLast(({ role }) => role === 'assistant')?.id
      requests.ask(
        { type: 'chat/send', thread_id: id, trigger: 'regenerate-message' },
        {
          kind: 'once',
          onResponse(response) {
            isRegenerating = false
            if (response.type === 'chat/start' && id === thread.id)
              thread.started({ runId: response.run_id, isQueued: false, replaces })
          },
          onRefusal(refusal) {
            isRegenerating = false
            showRefusal(refusal)
            if (id === thread.id) thread.refresh()
          },
        },
      )
    },
    stop() {
      forgetProblem()
      requests.ask(
        { type: 'chat/abort', thread_id: thread.id },
        { kind: 'read', onResponse: () => undefined, onRefusal: showRefusal },
      )
    },
    decide(callId, { isApproved, editedArgs, always }) {
      forgetProblem()
      const { id } = thread
      thread.decide(callId, { isApproved, ...(editedArgs && { editedArgs }) })
      requests.ask(
        {
          type: 'chat/decide',
          call_id: callId,
          approved: isApproved,
          ...(isApproved && editedArgs && { edited_args: editedArgs }),
          always: always !== undefined,
          ...(always && { scope: always }),
        },
        {
          kind: 'keep',
          onResponse: () => undefined,
          onRefusal(refusal) {
            if (refusal.code !== 'ALREADY_DECIDED') showRefusal(refusal)
            if (id !== thread.id) return
            thread.undecide(callId)
            if (goneQuestions.has(refusal.code)) thread.refresh()
          },
        },
      )
    },
    rate(messageId, rating, comment) {
      forgetProblem()
      const { id } = thread
      const before = thread.entries.find((entry) => entry.id === messageId)
      thread.rate(messageId, rating)
      requests.ask(
        { type: 'chat/feedback', message_id: messageId, rating, ...(comment && { comment: comment.slice(0, 2_000) }) },
        {
          kind: 'keep',
          onResponse: () => undefined,
          onRefusal(refusal) {
            showRefusal(refusal)
            if (id === thread.id && before?.role === 'assistant') thread.rate(messageId, before.feedback)
          },
        },
      )
    },
    setDraft,
    loadEarlier: () => thread.loadEarlier(),
    newThread() {
      forgetProblem()
      if (thread.entries.length > 0 || thread.isLoading) open(newId(), { isNew: true })
    },
    openThread(id) {
      if (id !== thread.id) open(id)
    },
    listThreads: (wanted) => threads.load(wanted),
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
      keepOutbox(outbox.filter(({ threadId }) => threadId !== id))
      kept?.writeDraft(id, '')
      if (id === thread.id) open(newId(), { isNew: true })
    },
    connectAccount(code) {
      accountCode = code
      completeAccount()
    },
    adopt(isWanted) {
      const { threadId, messages } = left
      if (!isWanted) return forgetLeft()
      forgetProblem()
      if (!threadId) return sendLeft(messages)
      requests.ask(
        { type: 'chat/adopt', thread_id: threadId, visitor_secret: visitorSecret.read() },
        {
          kind: 'once',
          onResponse() {
            visitorSecret.renew()
            if (threadId !== thread.id) moveTo(threadId)
            sendLeft(messages)
            threads.reload()
          },
          onRefusal(refusal) {
            if (refusal.code === 'RESOURCE_NOT_FOUND') sendLeft(messages)
            showRefusal(refusal)
          },
        },
      )
    },
  }
}

/** The question is no longer open, whatever was decided. */
const goneQuestions = new Set(['ALREADY_DECIDED', 'QUESTION_EXPIRED', 'RESOURCE_NOT_FOUND'])

/** The user's messages in an entry: itself, or those that entered during the run. */
const messageIds = (entry: Entry): string[] => (entry.role === 'user' ? [entry.id] : steeringIds(entry.parts))

const isQuestion = (part: AgentEntry['parts'][number]): part is ToolEntryPart =>
  part.kind === 'tool' && part.state === 'asking'

const isEqualList = <Item>(one: readonly Item[], other: readonly Item[]) =>
  one.length === other.length && one.every((item, index) => item === other[index])

function describeAgent(about: ResponseOf<'chat/agent'>): AgentInfo {
  const { name, greeting, starter_prompts, skills, connector_count, problem } = about
  return {
    name,
    greeting,
    starterPrompts: starter_prompts,
    skills,
    connectorCount: connector_count,
    problem: problem ?? undefined,
  }
}
