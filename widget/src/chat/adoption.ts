import type { VisitorSecret } from '../kept/visitor-secret.ts'
import { type ChatStorage, findKept, type Kept, type Left, type Outgoing } from './kept.ts'
import type { OpenThread } from './open-thread.ts'
import type { Outbox } from './outbox.ts'
import type { Requests } from './requests.ts'
import type { ShownState } from './shown-state.ts'
import type { Threads } from './thread-list.ts'

export interface ChatUser {
  id: string
  isAnonymous: boolean
}

/** What a visitor leaves in this tab, and the user who signs in after them may keep. */
export interface Adoption {
  /** What is kept of the visitor who used this tab last. */
  findVisitor(): Kept | undefined
  /** Another user is there. `messages` are those that the visitor before them couldn't send. */
  startOver(user: ChatUser, kept: Kept, messages: Outgoing[]): void
  /** The server has accepted a message. */
  sent(threadId: string): void
  /** The user's answer to the offer. */
  answer(isWanted: boolean): void
}

interface AdoptionOptions {
  ask: Requests['ask']
  storage: ChatStorage
  visitorSecret: VisitorSecret
  shown: ShownState
  thread: OpenThread
  threads: Threads
  outbox: Outbox
  /** Opens a thread with what is typed now. */
  moveTo(threadId: string): void
}

/** Where a tab keeps the ID and the last thread of a visitor, who may sign in. */
const visitorPlace = 'visitor'
const visitorThreadPlace = 'visitor-thread'
const nothing: Left = { threadId: '', messages: [] }

export function createAdoption(options: AdoptionOptions): Adoption {
  const { storage, visitorSecret, shown, thread, threads, outbox } = options
  let isVisitor = false
  let kept: Kept | undefined
  let left = nothing

  /** Sends what the visitor couldn't send, in the open thread. */
  function send(messages: readonly Outgoing[]): void {
    forget()
    outbox.adopt(messages)
  }

  function forget(): void {
    left = nothing
    kept?.writeLeft(nothing)
    shown.update({ canAdopt: false })
  }

  return {
    findVisitor() {
      const id = storage.tab.read(visitorPlace)
      return id === undefined ? undefined : findKept(storage, id)
    },

    /** What a visitor leaves is only offered to the first user who signs in after it. */
    startOver({ id, isAnonymous }, mine, messages) {
      isVisitor = isAnonymous
      kept = mine
      if (isVisitor) storage.tab.write(visitorPlace, id)
      else {
        const threadId = storage.tab.read(visitorThreadPlace) ?? ''
        for (const place of [visitorPlace, visitorThreadPlace]) storage.tab.remove(place)
        if (threadId || messages.length > 0) mine.writeLeft({ threadId, messages })
      }
      left = mine.readLeft()
      shown.update({ canAdopt: left.threadId !== '' || left.messages.length > 0 })
    },

    sent(threadId) {
      if (isVisitor) storage.tab.write(visitorThreadPlace, threadId)
    },

    answer(isWanted) {
      const { threadId, messages } = left
      if (!isWanted) return forget()
      shown.forgetProblem()
      if (!threadId) return send(messages)
      options.ask(
        { type: 'chat/adopt', thread_id: threadId, visitor_secret: visitorSecret.read() },
        {
          kind: 'once',
          onResponse() {
            visitorSecret.renew()
            if (threadId !== thread.id) options.moveTo(threadId)
            send(messages)
            threads.reload()
          },
          onRefusal(refusal) {
            if (refusal.code === 'RESOURCE_NOT_FOUND') send(messages)
            shown.showRefusal(refusal)
          },
        },
      )
    },
  }
}
