import { channelWord, newsBadge, readyWord, refusedWord, type Signs, type ToElement, type ToFrame } from './channel.ts'
import { createParts } from './element-parts.ts'
import { describeLauncher, type ElementStrings } from './element-strings.ts'
import { chooseStrings, languageOf, readLook } from './look.ts'
import { followPageTools, type PageTools, textOf } from './page-tools.ts'
import type { ConnectOptions, DisplayMode, HostContext, IdTokenSource, InlayEvents } from './public-types.ts'

export type { ConnectOptions, DisplayMode, HostContext, IdTokenSource, InlayEvents, Position } from './public-types.ts'

/** A frame that has loaded but doesn't respond within this time was blocked, or isn't ours. */
const frameAnswerMs = 2_000
const frameLoadMs = 20_000
/** Doubles with every failure. */
const loadAgainMs = 10_000
const longestLoadAgainMs = 300_000
/** The protocol's `maxChatMessageLength`, which this package can't import. */
const longestText = 32_000
/** Maximum number of requests of the page that wait for the frame. */
const maxWaiting = 20

const noSigns: Signs = { badge: '', marker: '' }

// Allows importing the package on a server, for server-side rendering.
const PageElement = globalThis.HTMLElement ?? class {}

/** The agent in a page. It keeps no tokens: it passes them directly to the frame. */
export class InlayAgent extends PageElement {
  static readonly observedAttributes = [
    'publishable-key',
    'display-mode',
    'api-base',
    'open',
    'agent-title',
    'greeting',
    'position',
    'language',
  ]
  /** Origin of the server, unless the `api-base` attribute is set. */
  static defaultApiBase: string | undefined

  readonly #root = this.attachShadow({ mode: 'open' })
  readonly #parts = createParts(this.#root)
  #key: string | undefined
  /** A function is kept; a token is dropped as soon as the frame has it. */
  #idToken: IdTokenSource | undefined
  /** Whether a token was dropped: a frame that reloads must not reconnect as an anonymous visitor. */
  #isForgotten = false
  #context: HostContext = {}
  #port: MessagePort | undefined
  /** What the page asked for before the frame was ready. */
  #waiting: ToFrame[] = []
  #tools: PageTools | undefined
  #toldPage = ''
  #listening: AbortController | undefined
  #signs: Signs = noSigns
  /** The note that is shown while there is no frame. */
  #note: ((strings: ElementStrings) => string) | undefined = ({ agentNotConnected }) => agentNotConnected
  /** The element that had the keyboard focus before the frame. */
  #cameFrom: HTMLElement | undefined
  #failures = 0
  #patience: ReturnType<typeof setTimeout> | undefined
  #hasReloaded = false

  constructor() {
    super()
    this.#parts.launcher.onclick = () => (this.isOpen ? this.close() : this.#openPanel())
    this.#parts.probe.ontransitionend = () => this.#tellLook()
    this.#parts.frame.onload = () => this.#expectAnswer(frameAnswerMs)
  }

  connectedCallback(): void {
    this.#listening = new AbortController()
    const { signal } = this.#listening
    const listen = (target: EventTarget | undefined, name: string, handle: (event: never) => void) =>
      target?.addEventListener(name, handle as EventListener, { signal })
    listen(window, 'message', this.#onReady)
    listen(window, 'popstate', this.#tellPage)
    listen(window.navigation, 'navigatesuccess', this.#tellPage)
    listen(document, 'focusout', this.#rememberFocus)
    listen(window.visualViewport ?? undefined, 'resize', this.#fitKeyboard)
    listen(window.visualViewport ?? undefined, 'scroll', this.#fitKeyboard)
    this.#changes.observe(document.head, { subtree: true, childList: true, characterData: true })
    this.#changes.observe(document.documentElement, { attributeFilter: ['lang', 'dir'] })
    this.#render()
    this.#takeAccountCode()
    this.#start()
  }

  disconnectedCallback(): void {
    this.#listening?.abort()
    this.#changes.disconnect()
    this.#leave()
  }

  attributeChangedCallback(name: string, before: string | null, after: string | null): void {
    if (before === after) return
    this.#render()
    if (name === 'publishable-key') this.#key = after ?? undefined
    if (name !== 'publishable-key' && name !== 'api-base') this.#tellLook()
    // For an element already in the page, this runs before `connectedCallback`.
    else if (this.#listening) this.#start()
  }

  /** Connects as the token's end user, or without a token as an anonymous visitor. */
  connect({ publishableKey, idToken }: ConnectOptions = {}): void {
    this.#key = publishableKey ?? this.#key ?? this.getAttribute('publishable-key') ?? undefined
    this.#remember(idToken)
    this.#start()
  }

  /** Call this when the user signs in or out, or has a fresh token. The page stays connected. */
  setAuth({ idToken }: Pick<ConnectOptions, 'idToken'>): void {
    this.#remember(idToken)
    if (this.#port) void this.#identify()
  }

  /** Ends the connection; `connect` starts a new one. */
  disconnect(): void {
    this.#send({ type: 'disconnect' })
    this.#leave()
    this.#unload()
    this.#key = undefined
    this.#waiting = []
    this.#tell(({ agentNotConnected }) => agentNotConnected)
  }

  setHostContext(context: HostContext): void {
    this.#context = { ...this.#context, ...context }
    this.#parts.agent.style.colorScheme = this.#context.theme ?? ''
    this.#render()
    this.#tellLook()
  }

  /** `open()` opens the panel and moves the keyboard focus into it. */
  get open(): () => void {
    return this.#openPanel
  }

  /** Opens or closes the panel, and leaves the focus in the page. Frameworks set attributes as properties. */
  set open(open: boolean) {
    this.toggleAttribute('open', open)
  }

  readonly #openPanel = (): void => {
    this.#reveal()
    this.#parts.frame.focus()
  }

  /** Whether the panel is open, in the modes with a launcher. */
  get isOpen(): boolean {
    return this.hasAttribute('open')
  }

  close(): void {
    if (!this.isOpen) return
    const hadFocus = this.#root.activeElement !== null
    this.open = false
    if (hadFocus) this.#parts.launcher.focus()
    this.#dispatch('inlay-close', undefined)
  }

  /** Opens the panel and sends a message to the agent in the user's name, as soon as the frame is ready. */
  send(text: string): void {
    if (typeof text !== 'string' || !text.trim() || text.length > longestText)
      throw new RangeError(`send needs a text of 1 to ${longestText} characters.`)
    this.#request({ type: 'send', text })
    this.#reveal()
  }

  /** Starts a new conversation. The current one stays in the list. */
  newThread(): void {
    this.#request({ type: 'new-thread' })
  }

  get displayMode(): DisplayMode {
    const mode = this.getAttribute('display-mode')
    return mode === 'inline' || mode === 'fullscreen' ? mode : 'pip'
  }

  set displayMode(mode: DisplayMode) {
    this.setAttribute('display-mode', mode)
  }

  #render(title = this.#pageTitle()): void {
    const { agent, panel, frame, note, launcher, badge } = this.#parts
    const strings = chooseStrings(languageOf(this), this.#context.strings)
    const style = getComputedStyle(this)
    const leftEdge = style.direction === 'rtl' ? 'bottom-end' : 'bottom-start'
    const position = this.getAttribute('position')
    agent.className = `agent ${this.displayMode}`
    agent.classList.toggle('is-left', position === 'bottom-left' || position === leftEdge)
    agent.classList.toggle('is-open', this.isOpen)
    agent.classList.toggle('is-noted', this.#note !== undefined)
    agent.classList.toggle('is-branded', style.getPropertyValue('--inlay-accent') !== '')
    panel.ariaLabel = frame.title = this.getAttribute('agent-title') || strings.agent
    launcher.ariaExpanded = String(this.isOpen)
    launcher.ariaLabel = this.isOpen ? strings.closeAgent : describeLauncher(strings, this.#signs)
    badge.textContent = this.#signs.badge
    badge.classList.toggle('is-dot', this.#signs.badge === newsBadge)
    const noted = this.#note?.(strings) ?? ''
    // Screen readers announce the note whenever it is set.
    if (note.textContent !== noted) note.textContent = noted
    const marked = `${this.#signs.marker} ${title}`.trim()
    if (document.title !== marked) document.title = marked
  }

  #sign(signs: Signs): void {
    const title = this.#pageTitle()
    this.#signs = signs
    this.#render(title)
  }

  #pageTitle(): string {
    return document.title.replace(this.#signs.marker, '').trim()
  }

  readonly #rememberFocus = (event: Event) => {
    const [from] = event.composedPath()
    if (from !== this.#parts.frame) this.#cameFrom = from as HTMLElement
  }

  #start(): void {
    if (!this.isConnected || this.#key === undefined) return
    if (!this.#key) {
      this.#leave()
      this.#unload()
      this.#fail('INVALID_KEY', 'The publishable key is empty.')
      return
    }
    const address = this.#address()
    if (!address) this.#fail('INVALID_API_BASE', "The attribute api-base isn't a URL.")
    else if (this.#parts.frame.src !== address.href) this.#load(address)
    else if (this.#port) void this.#identify()
  }

  #load(address: URL): void {
    this.#leave()
    this.#parts.frame.src = address.href
    // Inserting a frame again would reload it.
    if (!this.#parts.frame.parentNode) this.#parts.panel.append(this.#parts.frame)
    this.#expectAnswer(frameLoadMs)
    if (this.#failures === 0) this.#tell(({ agentConnecting }) => agentConnecting)
  }

  #reload(): void {
    // Reloads immediately only once; if that doesn't help, the cause isn't an upgrade, so the frame counts as missing.
    if (this.#hasReloaded) this.#missing()
    else {
      this.#hasReloaded = true
      this.#unload()
      this.#start()
    }
  }

  #unload(): void {
    this.#parts.frame.remove()
    this.#parts.frame.removeAttribute('src')
    this.#failures = 0
  }

  /** A publishable key may appear in a URL, because every visitor can read it in the page anyway. */
  #address(): URL | null {
    const base = this.getAttribute('api-base') ?? InlayAgent.defaultApiBase ?? location.origin
    return URL.parse(`/embed/?key=${encodeURIComponent(this.#key ?? '')}`, base)
  }

  readonly #onReady = ({ source, origin, data }: MessageEvent) => {
    const address = this.#address()
    if (source !== this.#parts.frame.contentWindow || origin !== address?.origin) return
    if (data === refusedWord) return this.#refused()
    if (data !== readyWord) return
    this.#leave()
    this.#failures = 0
    const { port1, port2 } = new MessageChannel()
    this.#parts.frame.contentWindow?.postMessage(channelWord, origin, [port2])
    port1.onmessage = (event: MessageEvent<ToElement>) => this.#receive(event.data)
    this.#port = port1
    this.#note = undefined
    this.#tellLook()
    this.#toldPage = ''
    this.#tellPage()
    this.#tools = followPageTools((message) => this.#send(message))
    void this.#identify()
    for (const request of this.#waiting.splice(0)) this.#send(request)
  }

  #remember(idToken: IdTokenSource | undefined): void {
    this.#idToken = idToken
    this.#isForgotten = false
  }

  /** Passes the identity to the frame. */
  async #identify(): Promise<void> {
    if (this.#isForgotten) return this.#report('TOKEN_EXPIRED', 'A new ID token is needed. Pass it to setAuth.')
    const source = this.#idToken
    const port = this.#port
    const canRenew = typeof source === 'function'
    // A function that resolves late must not override a later identity.
    const isCurrent = () => port === this.#port && (!canRenew || source === this.#idToken)
    if (typeof source === 'string') {
      this.#idToken = undefined
      this.#isForgotten = true
    }
    try {
      const idToken = canRenew ? await source() : source
      if (isCurrent()) this.#send({ type: 'connect', ...(idToken !== undefined && { idToken }), canRenew })
    } catch (error) {
      if (isCurrent()) this.#send({ type: 'no-token' })
      this.#report('ID_TOKEN_UNAVAILABLE', `The page could not get an ID token: ${textOf(error)}`)
    }
  }

  #receive(message: ToElement): void {
    if (message.type === 'initialized' || message.type === 'message' || message.type === 'tool-call') {
      const { type, ...detail } = message
      this.#dispatch(`inlay-${type}`, detail)
    } else if (message.type === 'error') this.#report(message.code, message.message)
    else if (message.type === 'identify') void this.#identify()
    else if (message.type === 'call') void this.#tools?.run(message)
    else if (message.type === 'cancel') this.#tools?.cancel(message.id)
    else if (message.type === 'size') {
      const { width, height } = message
      this.#parts.agent.style.setProperty('--content-height', `${height}px`)
      this.#dispatch('inlay-size-changed', { width, height })
    } else if (message.type === 'signs') this.#sign(message.signs)
    else if (message.type === 'show') this.#reveal()
    else if (message.type === 'release') {
      if (document.activeElement === this) this.#cameFrom?.focus({ preventScroll: true })
    } else if (message.type === 'reload') this.#reload()
    else if (message.type === 'close') this.close()
  }

  #reveal(): void {
    this.open = true
    if (this.displayMode === 'inline') this.scrollIntoView({ block: 'nearest' })
  }

  #request(message: ToFrame): void {
    if (this.#port) this.#send(message)
    else if (this.#waiting.length < maxWaiting) this.#waiting.push(message)
    else throw new RangeError('Too many requests are waiting for the agent.')
  }

  #leave(): void {
    clearTimeout(this.#patience)
    this.#tools?.stop()
    this.#port?.close()
    this.#port = undefined
    this.#sign(noSigns)
  }

  #tellLook(): void {
    this.#send({ type: 'look', look: readLook(this, this.#parts.probe, this.#context) })
  }

  /** A phone's keyboard covers the lower part of the page without making it smaller. Zooming does neither. */
  readonly #fitKeyboard = () => {
    const { height, offsetTop, scale } = window.visualViewport as VisualViewport
    const { style } = this.#parts.agent
    style.setProperty('--view-height', scale > 1 ? '' : `${height}px`)
    style.setProperty('--view-top', scale > 1 ? '' : `${offsetTop}px`)
  }

  /** Many pages change their URL and title without a reload. */
  readonly #tellPage = () => {
    this.#render()
    const page = { url: location.href, title: this.#pageTitle() }
    const told = JSON.stringify(page)
    if (told === this.#toldPage) return
    this.#toldPage = told
    this.#send({ type: 'page', ...page })
  }

  /** Of the title, and of the page's language and direction. */
  readonly #changes = new MutationObserver((records) => {
    this.#tellPage()
    if (records.some(({ type }) => type === 'attributes')) this.#tellLook()
  })

  #send(message: ToFrame): void {
    this.#port?.postMessage(message)
  }

  #expectAnswer(ms: number): void {
    if (this.#port) return
    clearTimeout(this.#patience)
    this.#patience = setTimeout(() => this.#missing(), ms)
  }

  #refused(): void {
    const key = `${this.#key?.slice(0, 12)}…`
    const remedy = `Add ${location.origin} to the key's allowed origins.`
    this.#giveUp('ORIGIN_NOT_ALLOWED', `This origin isn't allowed for the key ${key}. ${remedy}`)
  }

  #missing(): void {
    const { origin = '' } = this.#address() ?? {}
    const cause = `Either no Inlay server runs there, or it doesn't allow this origin`
    const remedy = `add ${location.origin} to the key's allowed origins.`
    this.#giveUp('FRAME_UNAVAILABLE', `The agent didn't load from ${origin}. ${cause}: ${remedy}`)
  }

  /** Retries later: the server may be restarting, or an administrator may allow the origin. */
  #giveUp(code: string, message: string): void {
    this.#fail(code, message)
    const failures = this.#failures + 1
    this.#leave()
    this.#unload()
    this.#failures = failures
    this.#patience = setTimeout(() => this.#start(), Math.min(longestLoadAgainMs, loadAgainMs * 2 ** failures))
  }

  /** Shows a note in place of the frame. Visitors in production can't fix the problem, so they get no details. */
  #fail(code: string, message: string): void {
    this.#tell(({ agentNotConnected }) => (this.#key?.startsWith('pk_live_') ? agentNotConnected : message))
    this.#report(code, message)
  }

  #tell(note: (strings: ElementStrings) => string): void {
    this.#note = note
    this.#render()
  }

  #report(code: string, message: string): void {
    console.warn(`inlay-agent: ${code}: ${message}`)
    this.#dispatch('inlay-error', { code, message })
  }

  #dispatch<Name extends keyof InlayEvents>(name: Name, detail: InlayEvents[Name]['detail']): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }))
  }

  /** Takes the parameter of the URL with which users return from a third party. Removed, because it works once. */
  #takeAccountCode(): void {
    const url = new URL(location.href)
    const code = url.searchParams.get('inlay_connect')
    if (!code) return
    url.searchParams.delete('inlay_connect')
    history.replaceState(history.state, '', url)
    this.#request({ type: 'account', code })
    this.#reveal()
  }
}

declare global {
  interface HTMLElementTagNameMap {
    'inlay-agent': InlayAgent
  }
  interface HTMLElementEventMap extends InlayEvents {}
}
