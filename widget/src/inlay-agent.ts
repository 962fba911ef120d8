import { channelWord, readyWord, refusedWord, type Signs, type ToElement, type ToFrame } from './channel.ts'
import { createParts } from './element-parts.ts'
import { readLook } from './look.ts'
import { followPageTools, type PageTools, textOf } from './page-tools.ts'
import type { ConnectOptions, DisplayMode, HostContext, IdTokenSource, InlayEvents } from './public-types.ts'

export type { ConnectOptions, DisplayMode, HostContext, IdTokenSource, InlayEvents } from './public-types.ts'

/** A frame that has loaded but doesn't respond within this time was blocked, or isn't ours. */
const frameAnswerMs = 2_000
const frameLoadMs = 20_000
/** Doubles with every failure. */
const loadAgainMs = 10_000
const longestLoadAgainMs = 300_000

const noSigns: Signs = { badge: '', news: '', marker: '' }

// Allows importing the package on a server, for server-side rendering.
const PageElement = globalThis.HTMLElement ?? class {}

/** The agent in a page. It keeps no tokens: it passes them directly to the frame. */
export class InlayAgent extends PageElement {
  static readonly observedAttributes = ['publishable-key', 'display-mode', 'api-base', 'open']
  /** Origin of the server, unless the `api-base` attribute is set. */
  static defaultApiBase: string | undefined

  readonly #parts = createParts(this.attachShadow({ mode: 'open' }))
  #key: string | undefined
  /** A function is kept; a token is dropped as soon as the frame has it. */
  #idToken: IdTokenSource | undefined
  /** Whether a token was dropped: a frame that reloads must not reconnect as an anonymous visitor. */
  #isForgotten = false
  #context: HostContext = {}
  #port: MessagePort | undefined
  #tools: PageTools | undefined
  #toldPage = ''
  #listening: AbortController | undefined
  #signs: Signs = noSigns
  /** The element that had the keyboard focus before the frame. */
  #cameFrom: HTMLElement | undefined
  #failures = 0
  #patience: ReturnType<typeof setTimeout> | undefined
  #hasReloaded = false

  constructor() {
    super()
    this.#parts.launcher.onclick = () => (this.open ? this.#close() : this.#open())
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
    this.#titles.observe(document.head, { subtree: true, childList: true, characterData: true })
    this.#show()
    this.#start()
  }

  disconnectedCallback(): void {
    this.#listening?.abort()
    this.#titles.disconnect()
    this.#leave()
  }

  attributeChangedCallback(name: string, before: string | null, after: string | null): void {
    if (before === after) return
    this.#show()
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
    this.#tell("The assistant isn't connected.")
  }

  setHostContext(context: HostContext): void {
    this.#context = { ...this.#context, ...context }
    this.#parts.agent.style.colorScheme = this.#context.theme ?? ''
    this.#tellLook()
  }

  /** Whether the panel is open, in the modes with a launcher. */
  get open(): boolean {
    return this.hasAttribute('open')
  }

  set open(open: boolean) {
    this.toggleAttribute('open', open)
  }

  get displayMode(): DisplayMode {
    const mode = this.getAttribute('display-mode')
    return mode === 'inline' || mode === 'fullscreen' ? mode : 'pip'
  }

  set displayMode(mode: DisplayMode) {
    this.setAttribute('display-mode', mode)
  }

  #show(title = this.#pageTitle()): void {
    this.#parts.agent.classList.remove('pip', 'inline', 'fullscreen')
    this.#parts.agent.classList.add(this.displayMode)
    this.#parts.agent.classList.toggle('is-open', this.open)
    this.#parts.launcher.ariaExpanded = String(this.open)
    this.#parts.launcher.ariaLabel = this.open ? 'Close the agent' : `Open the agent${this.#signs.news}`
    this.#parts.badge.textContent = this.#signs.badge
    const marked = `${this.#signs.marker} ${title}`.trim()
    if (document.title !== marked) document.title = marked
  }

  #sign(signs: Signs): void {
    const title = this.#pageTitle()
    this.#signs = signs
    this.#show(title)
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
    if (this.#failures === 0) this.#tell('Connecting…')
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
    this.#parts.agent.classList.remove('is-noted')
    this.#tellLook()
    this.#toldPage = ''
    this.#tellPage()
    this.#tools = followPageTools((message) => this.#send(message))
    void this.#identify()
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
    if (message.type === 'initialized') {
      const { userId, organizationId } = message
      this.#dispatch('inlay-initialized', { userId, organizationId })
    } else if (message.type === 'error') this.#report(message.code, message.message)
    else if (message.type === 'identify') void this.#identify()
    else if (message.type === 'call') void this.#tools?.run(message)
    else if (message.type === 'cancel') this.#tools?.cancel(message.id)
    else if (message.type === 'size') {
      const { width, height } = message
      this.#parts.agent.style.setProperty('--content-height', `${height}px`)
      this.#dispatch('inlay-size-changed', { width, height })
    } else if (message.type === 'signs') this.#sign(message.signs)
    else if (message.type === 'show') {
      this.open = true
      if (this.displayMode === 'inline') this.scrollIntoView({ block: 'nearest' })
    } else if (message.type === 'release') {
      if (document.activeElement === this) this.#cameFrom?.focus({ preventScroll: true })
    } else if (message.type === 'reload') this.#reload()
    else if (message.type === 'close') this.#close()
  }

  #open(): void {
    this.open = true
    this.#parts.frame.focus()
  }

  #close(): void {
    this.open = false
    this.#parts.launcher.focus()
    this.#dispatch('inlay-close', undefined)
  }

  #leave(): void {
    clearTimeout(this.#patience)
    this.#tools?.stop()
    this.#port?.close()
    this.#port = undefined
    this.#sign(noSigns)
  }

  #tellLook(): void {
    this.#send({ type: 'look', look: readLook(this, this.#parts.probe) })
  }

  /** Many pages change their URL and title without a reload. */
  readonly #tellPage = () => {
    this.#show()
    const page = { url: location.href, title: this.#pageTitle() }
    const told = JSON.stringify(page)
    if (told === this.#toldPage) return
    this.#toldPage = told
    this.#send({ type: 'page', ...page })
  }

  readonly #titles = new MutationObserver(this.#tellPage)

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
    this.#tell(this.#key?.startsWith('pk_live_') ? "The assistant isn't available right now." : message)
    this.#report(code, message)
  }

  #tell(text: string): void {
    this.#parts.note.textContent = text
    this.#parts.agent.classList.add('is-noted')
  }

  #report(code: string, message: string): void {
    console.warn(`inlay-agent: ${code}: ${message}`)
    this.#dispatch('inlay-error', { code, message })
  }

  #dispatch<Name extends keyof InlayEvents>(name: Name, detail: InlayEvents[Name]['detail']): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }))
  }
}

declare global {
  interface HTMLElementTagNameMap {
    'inlay-agent': InlayAgent
  }
  interface HTMLElementEventMap extends InlayEvents {}
}
