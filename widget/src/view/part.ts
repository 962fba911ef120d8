import type { Look, ToElement } from '../channel.ts'
import type { ChatStorage } from '../chat/kept.ts'
import { createChatSession } from '../chat/session.ts'
import type { ChatSession } from '../chat/state.ts'
import type { Call, Calls } from '../frame/calls.ts'
import type { Connection, Problem, Status } from '../frame/connection.ts'
import type { SortedTools } from '../frame/tool-messages.ts'
import type { VisitorSecret } from '../kept/visitor-secret.ts'
import { describeEarlierCall } from './pages/earlier-calls.ts'
import { type BrowserTrust, trusted } from './questions/confirm-browser.tsx'
import { addCatalogue, findLocale } from './strings.ts'
import { createView } from './view.tsx'

/** What the frame knows apart from the conversations. It changes these values, and then calls `show`. */
export interface Facts {
  status: Status
  /** Why the server refuses the page. */
  problem?: Problem | undefined
  /** Unknown before the first connection. */
  user?: { id: string; isAnonymous: boolean }
  tools: SortedTools
  /** Undefined until the server says it, and for users whom it doesn't ask. */
  trust?: BrowserTrust
  /** The last call that ended before the user answered. */
  withdrawn?: Call | undefined
}

interface Frame {
  facts: Facts
  calls: Calls
  connection: Connection
  storage: ChatStorage
  visitorSecret: VisitorSecret
  pageOrigin: string
  say(message: ToElement): void
  /** Opens the window that confirms the browser; false if that isn't allowed. */
  confirm(): boolean
  isShown(): boolean
  isInline(): boolean
  /** The chat has changed. `hasAnswered`: a run has ended. */
  onChange(hasAnswered: boolean): void
}

export interface Panel {
  session: ChatSession
  show(): void
  apply(look: Look): void
}

/** With the time for the response, a lost connection is noticed within ten seconds. */
const checkEveryMs = 4_000

/** The second part of the frame, which is loaded when it's needed: the conversations, and everything that is shown. */
export function startPanel(frame: Frame): Panel {
  const { facts, calls, connection, say } = frame
  const session = createChatSession({
    send: (message) => connection.send(message),
    now: Date.now,
    storage: frame.storage,
    visitorSecret: frame.visitorSecret,
    pageOrigin: frame.pageOrigin,
    schedule: drawSoon,
    onEvent(event) {
      const { threadId, messageId } = event
      const hasAnswered = event.type === 'answered' && event.status !== 'waiting'
      if (event.type === 'sent') say({ type: 'message', role: 'user', threadId, messageId })
      if (hasAnswered) say({ type: 'message', role: 'assistant', threadId, messageId })
      frame.onChange(hasAnswered)
    },
  })
  const view = createView(document.body, {
    session,
    onClose: () => say({ type: 'close' }),
    onDecision(id, decision) {
      facts.withdrawn = undefined
      calls.decide(id, decision)
    },
    onRevoke: (subject) => calls.revoke(subject),
    onRetry: () => connection.retry(),
    onConfirm: frame.confirm,
    onRelease: () => say({ type: 'release' }),
    onSize(width, height) {
      say({ type: 'size', width, height })
      // Keeps a question that has grown in view.
      if (calls.waiting.length > 0 && frame.isInline()) say({ type: 'show' })
    },
  })
  function show(): void {
    const { status, problem, user, tools, withdrawn } = facts
    view.show({
      state: problem ? 'refused' : status.state,
      isRestarting: status.state === 'waiting' && status.isRestarting === true,
      isOnline: navigator.onLine,
      problem,
      isAnonymous: user?.isAnonymous ?? false,
      trust: (!user?.isAnonymous && facts.trust) || trusted,
      tools: tools.accepted,
      leftOut: tools.leftOut,
      calls: calls.list,
      earlier: calls.earlier.map(describeEarlierCall),
      waiting: calls.waiting,
      permissions: calls.permissions,
      withdrawn,
    })
  }
  let latest: Look
  /** The view has the English texts. */
  function apply(look: Look): void {
    latest = look
    const { language = '' } = findLocale(look.language) ?? {}
    const address = textAddresses[language]
    if (!address) view.apply(look)
    else
      import(address).then(
        ({ texts }) => {
          addCatalogue(language, texts)
          view.apply(latest)
        },
        () => say({ type: 'reload' }),
      )
  }
  session.subscribe(() => frame.onChange(false))
  if (facts.user && connection.isReady()) session.connected({ ...facts.user, isResumed: false })
  setInterval(() => {
    if (frame.isShown() && !document.hidden) connection.check()
  }, checkEveryMs)
  for (const change of ['online', 'offline'])
    window.addEventListener(change, () => {
      show()
      connection.check()
    })
  return { session, show, apply }
}

/** Frames of hidden tabs aren't drawn, but their conversations continue. */
function drawSoon(callback: () => void): void {
  if (document.hidden) setTimeout(callback)
  else requestAnimationFrame(callback)
}
