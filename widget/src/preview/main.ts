import { initializeWebMCPPolyfill } from '@mcp-b/webmcp-polyfill'
import type { InlayAgent, InlayEvents } from '../inlay-agent.ts'
import { showHostPage } from './host-page.ts'
import type { FromPreview, ToPreview } from './messages.ts'
import style from './preview.css'

/**
 * A page with the widget, in a frame of the dashboard. It has no token of its own: the widget asks the dashboard for one
 * whenever it needs it, so none is in an address or in storage.
 */

const { parent, origin } = window
const tell = (message: FromPreview) => parent.postMessage(message, origin)

let giveToken: ((token: string | null) => void) | undefined

function requestToken(): Promise<string> {
  giveToken?.(null)
  return new Promise((resolve, reject) => {
    giveToken = (token) => (token === null ? reject(new Error('The dashboard has no token')) : resolve(token))
    tell({ type: 'inlay-preview-token-wanted' })
  })
}

function showTheme(theme: string): void {
  document.documentElement.dataset.theme = theme
}

let agent: InlayAgent | undefined

async function connect({ publishableKey, language, theme }: ToPreview & { type: 'inlay-preview-connect' }) {
  if (agent) return
  document.documentElement.lang = language
  showTheme(theme)
  const tools = showHostPage(document.body, language)
  agent = document.createElement('inlay-agent') as InlayAgent
  agent.setAttribute('display-mode', 'inline')
  agent.addEventListener('inlay-initialized', () => tell({ type: 'inlay-preview-connected' }))
  agent.addEventListener('inlay-message', ({ detail }: InlayEvents['inlay-message']) =>
    tell({ type: 'inlay-preview-message', ...detail }),
  )
  agent.addEventListener('inlay-error', ({ detail }: InlayEvents['inlay-error']) =>
    tell({ type: 'inlay-preview-error', ...detail }),
  )
  document.body.append(agent)
  agent.connect({ publishableKey, idToken: requestToken })
  agent.newThread()
  initializeWebMCPPolyfill()
  const context = (document as { modelContext?: { registerTool(tool: object): unknown } }).modelContext
  for (const tool of tools) await context?.registerTool(tool)
}

function receive(message: ToPreview): void {
  if (message.type === 'inlay-preview-connect') void connect(message)
  else if (message.type === 'inlay-preview-token') giveToken?.(message.token)
  else if (message.type === 'inlay-preview-theme') showTheme(message.theme)
  else if (message.type === 'inlay-preview-send') agent?.send(message.text)
  else if (message.type === 'inlay-preview-new-thread') agent?.newThread()
}

const sheet = new CSSStyleSheet()
sheet.replaceSync(style)
document.adoptedStyleSheets = [sheet]

/**
 * Users return here after they have connected an account at a third party, in a tab of their own. Only the dashboard can
 * complete the connection, because it knows who they are.
 */
function openTryIt(): void {
  const query = new URLSearchParams(location.search)
  const organization = query.get('organization')
  query.delete('organization')
  if (organization) location.replace(`/o/${encodeURIComponent(organization)}/try-it?${query}`)
  else document.body.textContent = 'Open “Try it” in the dashboard to talk to your agent.'
}

if (parent === window) openTryIt()
else {
  addEventListener('message', ({ source, origin: from, data }) => {
    if (source === parent && from === origin) receive(data)
  })
  tell({ type: 'inlay-preview-ready' })
}
