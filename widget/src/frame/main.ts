import { channelWord, readyWord, refusedWord, type ToElement, type ToFrame } from '../channel.ts'
import { Calls, sayStillAskingMs } from './calls.ts'
import { createConnection, type Status } from './connection.ts'
import { IdentityRequests } from './identity-requests.ts'
import { explainProblem } from './problems.ts'
import { describeSigns } from './signs.ts'
import { listTools, type SortedTools, sortTools, tellChanges } from './tool-messages.ts'
import { createView } from './view.ts'

const isDevelopment = document.documentElement.dataset.mode === 'development'
const key = new URLSearchParams(location.search).get('key') ?? ''

/** Only the page around this frame may hand over a channel, and only one; whose page it is, the browser says. */
function waitForChannel(): void {
  window.addEventListener('message', function receive({ source, origin, data, ports: [port] }) {
    if (window.parent === window || source !== window.parent || data !== channelWord || !port) return
    window.removeEventListener('message', receive)
    run(port, origin)
  })
  // To whomever it may be: there is nothing in it.
  window.parent.postMessage(readyWord, '*')
}

function run(port: MessagePort, embeddingOrigin: string): void {
  const say = (message: ToElement) => port.postMessage(message)
  let page = { url: embeddingOrigin, title: '' }
  let tools: SortedTools = { accepted: [], leftOut: [] }
  /** Whether the page wants a connection, and as whom. */
  let wanted: { idToken: string | undefined; canRenew: boolean } | undefined
  let isShown = false
  let isInline = false
  let isAsking = false
  /** Whether a tool ran while the panel was closed. */
  let hasNews = false
  const identityRequests = new IdentityRequests(() => say({ type: 'identify' }))

  const view = createView(document.body, {
    onClose: () => say({ type: 'close' }),
    onDecision: (id, decision) => calls.decide(id, decision),
    onRevoke: (subject) => calls.revoke(subject),
    onRelease: () => say({ type: 'release' }),
    onSize(width, height) {
      say({ type: 'size', width, height })
      // The question may have grown out of view.
      if (isAsking && isInline) say({ type: 'show' })
    },
  })

  const calls = new Calls({
    findTool: (name) => tools.accepted.find((tool) => tool.name === name),
    run({ id, tool, args }) {
      hasNews ||= !isShown
      say({ type: 'call', id, definition: JSON.stringify(tool), args })
    },
    stop: ({ id }) => say({ type: 'cancel', id }),
    send: (message) => connection.send(message),
    onChange() {
      view.showCalls(calls.list)
      view.ask(calls.waiting)
      view.showPermissions(calls.permissions)
      const wasAsking = isAsking
      isAsking = calls.waiting.length > 0
      // Only for the first question, so that a user who has closed the panel since is not interrupted again.
      if (isAsking && !wasAsking) say({ type: 'show' })
      sign()
    },
  })
  const sign = () => {
    const sight = { waiting: calls.waiting.length, isShown, isInBackground: document.hidden, hasNews }
    say({ type: 'signs', signs: describeSigns(sight) })
  }
  setInterval(() => calls.sayStillAsking(), sayStillAskingMs)

  const connection = createConnection({
    key,
    embeddingOrigin,
    tabId: tabId(),
    page: () => page,
    onStatus: showStatus,
    onReady({ resumed }, { userId, orgId }) {
      if (!resumed) calls.startOver()
      for (const message of listTools(tools.accepted)) connection.send(message)
      say({ type: 'initialized', userId, organizationId: orgId })
    },
    onMessage(message) {
      if (message.type === 'tool/call') calls.receive(message)
      else if (message.type === 'tool/cancel') calls.cancel(message.call_id, message.reason)
      else if (message.type === 'tools/accepted') for (const tool of message.refused) warn(tool.name, tool.reason)
    },
  })

  function showStatus(status: Status): void {
    if (status.state === 'connected') identityRequests.accepted()
    // A first refusal is usually put right by the page's next token, so only a repeated one is shown.
    const isRepeated = status.state === 'unidentified' && identityRequests.request()
    const problem = status.state === 'refused' ? status : isRepeated ? status.problem : undefined
    const [text, tone] = statusTexts[problem ? 'refused' : status.state]
    view.showStatus(text, tone)
    view.showProblem(problem && explainProblem(problem, isDevelopment))
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
      isInline = !data.look.canClose
      isShown = data.look.isOpen || isInline
      hasNews &&= !isShown
      view.apply(data.look)
      sign()
    } else if (data.type === 'page') {
      page = { url: data.url, title: data.title }
      if (connection.isReady()) connection.send({ type: 'page', ...page })
    } else if (data.type === 'tools') {
      const before = tools.accepted
      tools = sortTools(data.tools)
      if (connection.isReady()) for (const message of tellChanges(before, tools.accepted)) connection.send(message)
      for (const { name, reason } of tools.leftOut) warn(name, reason)
      view.showTools(tools.accepted, tools.leftOut)
    } else if (data.type === 'result') calls.finish(data.id, data.result)
    else calls.fail(data.id, data.message)
  }

  view.showTools([], [])
  showStatus({ state: 'connecting' })
  window.addEventListener('online', () => connection.check())
  document.addEventListener('visibilitychange', () => {
    sign()
    if (!document.hidden) connection.check()
  })
  // Leaving tells at once that the tools are gone; a page that the browser kept comes back on its own.
  window.addEventListener('pagehide', () => connection.end())
  window.addEventListener('pageshow', ({ persisted }) => {
    if (persisted && wanted) connection.identify(wanted.idToken, wanted.canRenew)
  })
}

const statusTexts = {
  idle: ['Not connected', 'busy'],
  connecting: ['Connecting…', 'busy'],
  connected: ['Connected', 'good'],
  waiting: ['Connection lost, trying again…', 'busy'],
  unidentified: ['Signing in again…', 'busy'],
  refused: ['Not available', 'bad'],
} as const satisfies Record<Status['state'], [string, 'busy' | 'good' | 'bad']>

const warn = (tool: string, reason: string) => console.warn(`inlay-agent: the tool ${tool} was left out: ${reason}`)

/** Kept over reloads, where the browser lets a frame keep something. */
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
