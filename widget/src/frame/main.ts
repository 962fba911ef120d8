import { channelWord, type Look, readyWord, refusedWord, type ToElement, type ToFrame } from '../channel.ts'
import { hadActiveRun } from '../chat/kept.ts'
import type { ChatSession } from '../chat/state.ts'
import { newSecret } from '../kept/ids.ts'
import { openStore, type TextStore } from '../kept/text-store.ts'
import { createVisitorSecret } from '../kept/visitor-secret.ts'
import type { Facts, Panel } from '../view/part.ts'
import { type Call, Calls } from './calls.ts'
import { createConfirmation } from './confirmation.ts'
import { createConnection, type Status } from './connection.ts'
import { IdentityRequests } from './identity-requests.ts'
import { describeSigns } from './signs.ts'
import { listTools, sortTools, tellChanges } from './tool-messages.ts'

type CallState = Extract<ToElement, { type: 'tool-call' }>['state']

const key = new URLSearchParams(location.search).get('key') ?? ''

/** Accepts one channel, and only from the embedding page, whose origin the browser vouches for. */
function waitForChannel(): void {
  window.addEventListener('message', function receive({ source, origin, data, ports: [port] }) {
    if (window.parent === window || source !== window.parent || data !== channelWord || !port) return
    window.removeEventListener('message', receive)
    run(port, origin)
  })
  // Any origin may receive it, because it contains nothing.
  window.parent.postMessage(readyWord, '*')
}

function run(port: MessagePort, embeddingOrigin: string): void {
  const say = (message: ToElement) => port.postMessage(message)
  let page = { url: embeddingOrigin, title: '' }
  /** Set while the page wants a connection. */
  let wanted: { idToken: string | undefined; canRenew: boolean } | undefined
  const facts: Facts = {
    status: { state: 'connecting' },
    tools: { accepted: [], leftOut: [] },
  }
  let look: Look | undefined
  let isAsking = false
  /** Whether a tool ran, or the agent answered, while the panel was closed. */
  let hasNews = false
  const stored = (find: () => Storage) => openStore(find, `inlay:${key}:`)
  const storage = { tab: stored(() => sessionStorage), browser: stored(() => localStorage) }
  const visitorSecret = createVisitorSecret(storage.browser)
  const identityRequests = new IdentityRequests(() => say({ type: 'identify' }))

  const isInline = () => look?.canClose === false
  const isShown = () => look?.isOpen === true || isInline()

  /** Loaded on demand, because most visitors never open the panel. */
  let panel: Panel | undefined
  let loading: Promise<void> | undefined
  function needPanel(): Promise<void> {
    loading ??= import(viewAddress).then(start, () => say({ type: 'reload' }))
    // At the same time, because the view needs it next. The view handles an error.
    const texts = textAddresses[`${look?.language}`.slice(0, 2)]
    if (texts) import(texts).catch(() => 0)
    return loading
  }
  function start({ startPanel }: typeof import('../view/part.ts')): void {
    const onChange = (hasAnswered: boolean) => {
      hasNews ||= hasAnswered && !isShown()
      sign()
    }
    const pageOrigin = embeddingOrigin
    panel = startPanel({
      facts,
      calls,
      connection,
      storage,
      visitorSecret,
      pageOrigin,
      say,
      confirm: confirmation.open,
      isShown,
      isInline,
      onChange,
    })
    if (look) panel.apply(look)
    panel.show()
  }
  const inChat = (act: (chat: ChatSession) => void) => void needPanel().then(() => panel && act(panel.session))

  /** The page learns nothing about tools that run at tool servers. */
  const tellCall = ({ id: callId, tool, connector }: Call, state: CallState) =>
    connector || say({ type: 'tool-call', callId, tool: tool.name, state })
  const calls = new Calls({
    findTool: (name) => facts.tools.accepted.find((tool) => tool.name === name),
    run(call) {
      const { id, tool, args } = call
      hasNews ||= !isShown()
      if (!call.connector) say({ type: 'call', id, definition: JSON.stringify(tool), args })
      tellCall(call, 'running')
    },
    stop(call) {
      say({ type: 'cancel', id: call.id })
      tellCall(call, 'failed')
    },
    send: (message) => connection.send(message),
    onWithdrawn(call) {
      facts.withdrawn = call
    },
    onEnd: tellCall,
    onChange() {
      panel?.show()
      const wasAsking = isAsking
      isAsking = calls.waiting.length > 0
      // Only for the first question, so that a user who closed the panel isn't interrupted again.
      if (isAsking && !wasAsking) {
        needPanel()
        say({ type: 'show' })
      }
      sign()
    },
  })
  let told = ''
  function sign(): void {
    const waiting = calls.waiting.length + (panel?.session.state.questions.length ?? 0)
    const signs = describeSigns({ waiting, isShown: isShown(), isInBackground: document.hidden, hasNews })
    const text = JSON.stringify(signs)
    if (told !== text) say({ type: 'signs', signs })
    told = text
  }
  const confirmation = createConfirmation((message) => connection.send(message))
  const describePage = () => ({ ...page, visible: !document.hidden })
  const tellPage = () => {
    if (connection.isReady()) connection.send({ type: 'page', ...describePage() })
  }

  const connection = createConnection({
    key,
    embeddingOrigin,
    tabId: findTabId(storage.tab),
    page: describePage,
    visitorSecret: visitorSecret.read,
    onStatus: receiveStatus,
    onReady({ resumed, user: known }, { userId, orgId }) {
      if (!resumed) calls.startOver(userId === facts.user?.id)
      facts.user = { id: userId, isAnonymous: known.is_anonymous }
      for (const message of listTools(facts.tools.accepted)) connection.send(message)
      panel?.session.connected({ ...facts.user, isResumed: resumed })
      panel?.show()
      say({ type: 'initialized', userId, organizationId: orgId })
    },
    onMessage(message) {
      if (message.type === 'tool/call') calls.receive(message)
      else if (message.type === 'tool/ask') calls.receiveQuestion(message)
      else if (message.type === 'frame') {
        facts.trust = {
          isConfirmed: message.is_confirmed,
          canConfirm: message.can_confirm,
          hasOtherSites: message.has_other_sites,
        }
        panel?.show()
      } else if (message.type === 'frame/request') confirmation.hand(message.request)
      else if (message.type === 'tool/run') calls.confirm(message.call_id)
      else if (message.type === 'calls/recent') calls.remember(message.calls)
      else if (message.type === 'tool/cancel') calls.cancel(message.call_id, message.reason)
      else if (message.type === 'tools/accepted') for (const tool of message.refused) warn(tool.name, tool.reason)
      else panel?.session.receive(message)
    },
  })

  function receiveStatus(next: Status): void {
    if (next.state === 'connected') identityRequests.accepted()
    else if (facts.status.state === 'connected') calls.dropped()
    // The page's next token usually resolves a first refusal, so only a repeated one is shown.
    const isRepeated = next.state === 'unidentified' && identityRequests.request()
    const problem = next.state === 'refused' ? next : isRepeated ? next.problem : undefined
    Object.assign(facts, { status: next, problem })
    if (!connection.isReady()) panel?.session.disconnected()
    // For developers and tests: while the panel is closed, nothing else shows the state.
    document.documentElement.dataset.state = problem ? 'refused' : next.state
    panel?.show()
    if (problem) say({ type: 'error', code: problem.code, message: problem.message })
  }

  port.onmessage = ({ data }: MessageEvent<ToFrame>) => {
    if (data.type === 'connect') {
      identityRequests.answered()
      wanted = { idToken: data.idToken, canRenew: data.canRenew }
      connection.identify(data.idToken, data.canRenew)
    } else if (data.type === 'no-token') {
      identityRequests.answered()
      identityRequests.request()
    } else if (data.type === 'disconnect') {
      identityRequests.answered()
      wanted = undefined
      connection.end()
    } else if (data.type === 'look') {
      look = data.look
      hasNews &&= !isShown()
      if (isShown()) needPanel()
      panel?.apply(look)
      sign()
      if (!panel) (document.body.firstChild as Node).textContent = look.loading
    } else if (data.type === 'page') {
      page = { url: data.url, title: data.title }
      tellPage()
    } else if (data.type === 'tools') {
      const before = facts.tools.accepted
      facts.tools = sortTools(data.tools)
      if (connection.isReady())
        for (const message of tellChanges(before, facts.tools.accepted)) connection.send(message)
      for (const { name, reason } of facts.tools.leftOut) warn(name, reason)
      panel?.show()
    } else if (data.type === 'send') inChat((chat) => chat.send(data.text))
    else if (data.type === 'new-thread') inChat((chat) => chat.newThread())
    else if (data.type === 'account') inChat((chat) => chat.connectAccount(String(data.code)))
    else if (data.type === 'result') calls.finish(data.id, data.result)
    else if (data.type === 'failure') calls.fail(data.id, data.message)
  }

  // The second part has its own rules for Escape.
  window.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape' && !panel && look?.canClose) say({ type: 'close' })
  })
  // So that the sign of a question or of an answer appears, although nobody has opened the panel yet.
  if (hadActiveRun(storage.tab)) needPanel()
  window.addEventListener('online', () => connection.check())
  document.addEventListener('visibilitychange', () => {
    sign()
    tellPage()
    if (!document.hidden) connection.check()
  })
  // Removes the tools immediately when the page is left. A page restored from the back/forward cache reconnects.
  window.addEventListener('pagehide', () => connection.end())
  window.addEventListener('pageshow', ({ persisted }) => {
    if (persisted && wanted) connection.identify(wanted.idToken, wanted.canRenew)
  })
}

/** Survives reloads if the browser allows storage in the frame. */
function findTabId(store: TextStore): string {
  const place = 'tab-id'
  const known = store.read(place) ?? newSecret()
  store.write(place, known)
  return known
}

const warn = (tool: string, reason: string) => console.warn(`inlay-agent: the tool ${tool} was skipped: ${reason}`)

if (document.documentElement.dataset.refused === undefined) waitForChannel()
else window.parent.postMessage(refusedWord, '*')
