import { channelWord, type Look, readyWord, refusedWord, type ToElement, type ToFrame } from '../channel.ts'
import { Calls } from './calls.ts'
import { createConnection, type Problem, type Status } from './connection.ts'
import { IdentityRequests } from './identity-requests.ts'
import { describeSigns } from './signs.ts'
import { listTools, type SortedTools, sortTools, tellChanges } from './tool-messages.ts'
import type { View } from './view.ts'

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
  let tools: SortedTools = { accepted: [], leftOut: [] }
  /** Set while the page wants a connection. */
  let wanted: { idToken: string | undefined; canRenew: boolean } | undefined
  let state: Status['state'] = 'connecting'
  let problem: Problem | undefined
  let look: Look | undefined
  /** Unknown before the first connection. */
  let isAnonymous: boolean | undefined
  let lastUser: string | undefined
  let isAsking = false
  /** Whether a tool ran while the panel was closed. */
  let hasNews = false
  const identityRequests = new IdentityRequests(() => say({ type: 'identify' }))

  const isInline = () => look?.canClose === false
  const isShown = () => look?.isOpen === true || isInline()

  /** Loaded on demand, because most visitors never open the panel. */
  let view: View | undefined
  let isLoading = false
  function needView(): void {
    if (isLoading) return
    isLoading = true
    import(viewAddress).then(startView, () => say({ type: 'reload' }))
  }
  function startView({ createView }: typeof import('./view.ts')): void {
    view = createView(document.body, {
      onClose: () => say({ type: 'close' }),
      onDecision: (id, decision) => calls.decide(id, decision),
      onRevoke: (subject) => calls.revoke(subject),
      onRelease: () => say({ type: 'release' }),
      onSize(width, height) {
        say({ type: 'size', width, height })
        // Keeps a question that has grown in view.
        if (isAsking && isInline()) say({ type: 'show' })
      },
    })
    if (look) view.apply(look)
    if (isAnonymous !== undefined) view.showVisitor(isAnonymous)
    view.showTools(tools.accepted, tools.leftOut)
    showCalls()
    showStatus()
  }
  function showCalls(): void {
    view?.showCalls(calls.list, calls.earlier)
    view?.ask(calls.waiting)
    view?.showPermissions(calls.permissions)
  }
  function showStatus(): void {
    view?.showStatus(state, problem)
  }

  const calls = new Calls({
    findTool: (name) => tools.accepted.find((tool) => tool.name === name),
    run({ id, tool, connector, args }) {
      hasNews ||= !isShown()
      // The page learns nothing about tools that run at tool servers.
      if (!connector) say({ type: 'call', id, definition: JSON.stringify(tool), args })
    },
    stop: ({ id }) => say({ type: 'cancel', id }),
    send: (message) => connection.send(message),
    onWithdrawn: (call) => view?.showWithdrawal(call),
    onChange() {
      showCalls()
      const wasAsking = isAsking
      isAsking = calls.waiting.length > 0
      // Only for the first question, so that a user who closed the panel isn't interrupted again.
      if (isAsking && !wasAsking) {
        needView()
        say({ type: 'show' })
      }
      sign()
    },
  })
  const sign = () => {
    const sight = { waiting: calls.waiting.length, isShown: isShown(), isInBackground: document.hidden, hasNews }
    say({ type: 'signs', signs: describeSigns(sight) })
  }
  const describePage = () => ({ ...page, visible: !document.hidden })
  const tellPage = () => {
    if (connection.isReady()) connection.send({ type: 'page', ...describePage() })
  }

  const connection = createConnection({
    key,
    embeddingOrigin,
    tabId: tabId(),
    page: describePage,
    onStatus: receiveStatus,
    onReady({ resumed, user }, { userId, orgId }) {
      isAnonymous = user.is_anonymous
      view?.showVisitor(isAnonymous)
      if (!resumed) calls.startOver(user.id === lastUser)
      lastUser = user.id
      for (const message of listTools(tools.accepted)) connection.send(message)
      say({ type: 'initialized', userId, organizationId: orgId })
    },
    onMessage(message) {
      if (message.type === 'tool/call') calls.receive(message)
      else if (message.type === 'tool/ask') calls.receiveQuestion(message)
      else if (message.type === 'tool/run') calls.confirm(message.call_id)
      else if (message.type === 'calls/recent') calls.remember(message.calls)
      else if (message.type === 'tool/cancel') calls.cancel(message.call_id, message.reason)
      else if (message.type === 'tools/accepted') for (const tool of message.refused) warn(tool.name, tool.reason)
    },
  })

  function receiveStatus(next: Status): void {
    if (next.state === 'connected') identityRequests.accepted()
    else if (state === 'connected') calls.dropped()
    // The page's next token usually resolves a first refusal, so only a repeated one is shown.
    const isRepeated = next.state === 'unidentified' && identityRequests.request()
    problem = next.state === 'refused' ? next : isRepeated ? next.problem : undefined
    state = problem ? 'refused' : next.state
    // For developers and tests: while the panel is closed, nothing else shows the state.
    document.documentElement.dataset.state = state
    showStatus()
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
      if (isShown()) needView()
      view?.apply(look)
      sign()
    } else if (data.type === 'page') {
      page = { url: data.url, title: data.title }
      tellPage()
    } else if (data.type === 'tools') {
      const before = tools.accepted
      tools = sortTools(data.tools)
      if (connection.isReady()) for (const message of tellChanges(before, tools.accepted)) connection.send(message)
      for (const { name, reason } of tools.leftOut) warn(name, reason)
      view?.showTools(tools.accepted, tools.leftOut)
    } else if (data.type === 'result') calls.finish(data.id, data.result)
    else calls.fail(data.id, data.message)
  }

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

const warn = (tool: string, reason: string) => console.warn(`inlay-agent: the tool ${tool} was skipped: ${reason}`)

/** Survives reloads if the browser allows storage in the frame. */
function tabId(): string {
  const place = 'inlay-tab-id'
  try {
    const known = sessionStorage.getItem(place) ?? crypto.getRandomValues(new Uint32Array(4)).join('-')
    sessionStorage.setItem(place, known)
    return known
  } catch {
    return crypto.getRandomValues(new Uint32Array(4)).join('-')
  }
}

if (document.documentElement.dataset.refused === undefined) waitForChannel()
else window.parent.postMessage(refusedWord, '*')
