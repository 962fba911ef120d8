import { maxChatMessageLength } from '@inlay/protocol/values'
import { newId } from '../kept/ids.ts'
import { deliveryInOutbox } from './delivery.ts'
import { fitsOutbox, type Outgoing } from './kept.ts'
import type { OpenThread } from './open-thread.ts'
import type { Refusal, Requests, ResponseOf } from './requests.ts'
import type { OwnProblem, UserEntry } from './state.ts'

/** The messages that the server hasn't accepted yet, in all threads, in the order in which they're sent. */
export interface Outbox {
  readonly messages: readonly Outgoing[]
  /** Whether a message is on its way to the thread. */
  isSendingTo(threadId: string): boolean
  /** Whether the thread's last turn is being replaced. */
  isEditing(threadId: string): boolean
  /** The message, unless it's on its way or the server has it. */
  find(id: string | undefined): Outgoing | undefined
  /** A thread's messages as entries. */
  entriesOf(threadId: string): UserEntry[]
  /** Shows a message, and sends it after those that wait. `edited` is one that it replaces. Returns false if it doesn't fit. */
  add(text: string, skill: string | null, isEdit: boolean, edited?: Outgoing): boolean
  /** Sends a refused message again. */
  retry(refused: Outgoing): void
  /** Sends messages of a visitor in the open thread. */
  adopt(messages: readonly Outgoing[]): void
  /** Takes the messages of a thread that is gone to another one. */
  move(from: string, to: string): void
  dropThread(threadId: string): void
  /** Drops what another user had. */
  startOver(messages: readonly Outgoing[]): void
  /** Shows that the connection is there or was lost. */
  showConnection(): void
  /** Sends the first message that waits. */
  flush(): void
}

interface OutboxOptions {
  ask: Requests['ask']
  now(): string
  isConnected(): boolean
  thread: OpenThread
  keep(messages: readonly Outgoing[]): void
  onSent(message: Outgoing, response: ResponseOf<'chat/start'>): void
  onRefused(message: Outgoing, refusal: Refusal): void
  onProblem(code: OwnProblem): void
}

export function createOutbox({ thread, ...options }: OutboxOptions): Outbox {
  let messages: readonly Outgoing[] = []
  /** The message that was sent and has no response yet. One at a time, so that they arrive in order. */
  let sendingId: string | undefined

  function change(next: readonly Outgoing[]): void {
    messages = next
    options.keep(next)
  }

  const replace = (id: string, changes: Partial<Outgoing>) =>
    change(messages.map((one) => (one.id === id ? { ...one, ...changes } : one)))

  const describe = (message: Outgoing): UserEntry => {
    const { id, text, skill, createdAt } = message
    return { role: 'user', id, text, skill, createdAt, delivery: deliveryInOutbox(message, options.isConnected()) }
  }

  function flush(): void {
    const next = messages.find(({ isRefused }) => !isRefused)
    if (!options.isConnected() || sendingId !== undefined || !next) return
    const { id, threadId, text, skill, isEdit } = next
    sendingId = id
    options.ask(
      {
        type: 'chat/send',
        thread_id: threadId,
        trigger: isEdit ? 'edit-message' : 'submit-message',
        message: { id, text, ...(skill !== null && { skill }) },
      },
      {
        kind: 'keep',
        onResponse(response) {
          if (response.type === 'chat/start') {
            sendingId = undefined
            change(messages.filter((one) => one.id !== id))
            options.onSent(next, response)
          }
          flush()
        },
        onRefusal(refusal) {
          sendingId = undefined
          replace(id, { isRefused: true })
          thread.changeMessage(id, 'refused')
          options.onRefused(next, refusal)
          flush()
        },
      },
    )
  }

  return {
    get messages() {
      return messages
    },
    isSendingTo: (wanted) => messages.some(({ id, threadId }) => id === sendingId && threadId === wanted),
    isEditing: (wanted) =>
      messages.some(({ threadId, isEdit, isRefused }) => threadId === wanted && isEdit && !isRefused),
    find: (wanted) => messages.find(({ id }) => id === wanted && id !== sendingId),
    entriesOf: (wanted) => messages.filter(({ threadId }) => threadId === wanted).map(describe),

    add(text, skill, isEdit, edited) {
      if (text.length > maxChatMessageLength) {
        options.onProblem('MESSAGE_TOO_LONG')
        return false
      }
      const createdAt = options.now()
      const added: Outgoing = { id: newId(), threadId: thread.id, text, skill, createdAt, isEdit, isRefused: false }
      const others = messages.filter((one) => one !== edited)
      if (!fitsOutbox([...others.filter(({ isRefused }) => !isRefused), added])) {
        options.onProblem('TOO_MANY_WAITING')
        return false
      }
      change([...others, added])
      if (edited) thread.removeEntry(edited.id)
      // An edit that waits has already taken the former message out.
      if (isEdit && (!edited || edited.isRefused)) thread.cutLastTurn()
      thread.addMessage(describe(added))
      flush()
      return true
    },

    retry(refused) {
      replace(refused.id, { isRefused: false })
      if (refused.isEdit) thread.cutLastTurn()
      thread.addMessage(describe({ ...refused, isRefused: false }))
      flush()
    },

    adopt(left) {
      const moved = left.map((one) => ({ ...one, threadId: thread.id, isEdit: false }))
      change([...messages, ...moved])
      for (const one of moved) thread.addMessage(describe(one))
      flush()
    },

    move: (from, to) =>
      change(messages.map((one) => (one.threadId === from ? { ...one, threadId: to, isEdit: false } : one))),
    dropThread: (dropped) => change(messages.filter(({ threadId }) => threadId !== dropped)),

    startOver(next) {
      sendingId = undefined
      change(next)
    },
    showConnection() {
      for (const message of messages)
        if (!message.isRefused) thread.changeMessage(message.id, describe(message).delivery)
    },
    flush,
  }
}
