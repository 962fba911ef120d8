import type { ClientMessageInput, ServerMessage } from '@inlay/protocol'
import { type ChatEvent, createChatSession } from '../../widget/src/chat/session.ts'
import type { ChatSession, ChatState } from '../../widget/src/chat/state.ts'
import { openStore } from '../../widget/src/kept/text-store.ts'
import { createVisitorSecret, type VisitorSecret } from '../../widget/src/kept/visitor-secret.ts'
import { type Page, pageOrigin } from './page.ts'
import type { Person, Shop } from './shop.ts'

/** What a browser keeps of a tab. */
export interface BrowserTab {
  /** The browser allows no storage in the frame. */
  isRefusing?: boolean
  session: Map<string, string>
  local: Map<string, string>
}

export const openTab = (browser?: BrowserTab): BrowserTab => ({
  session: new Map(),
  local: browser?.local ?? new Map(),
})

/** The widget's chat without a browser, on a socket of the real server. */
export interface ChatTab {
  session: ChatSession
  secret: VisitorSecret
  events: ChatEvent[]
  /** Connects, or reconnects after `drop`. */
  connect(person?: Person): Promise<Page>
  drop(): void
  /** Messages for which it returns true get lost. */
  lose(isLost: (message: ServerMessage) => boolean): void
  until(condition: (state: ChatState) => boolean): Promise<ChatState>
}

export function openChatTab(shop: Shop, tab: BrowserTab = openTab()): ChatTab {
  const open = (texts: Map<string, string>) =>
    openStore(() => {
      if (tab.isRefusing) throw new Error('SecurityError')
      return asStorage(texts)
    }, 'inlay:')
  const storage = { tab: open(tab.session), browser: open(tab.local) }
  const secret = createVisitorSecret(storage.browser)
  const events: ChatEvent[] = []
  const checks = new Set<() => void>()
  let page: Page | undefined
  let isLost = (_: ServerMessage) => false
  const session = createChatSession({
    send: (message: ClientMessageInput) => page?.send(message),
    now: Date.now,
    storage,
    visitorSecret: secret,
    pageOrigin,
    schedule: queueMicrotask,
    onEvent: (event) => events.push(event),
  })
  session.subscribe(() => {
    for (const check of checks) check()
  })
  return {
    session,
    secret,
    events,
    async connect(person) {
      const visitor = person ? {} : { visitor_secret: secret.read() }
      const opened = await shop.page(person, { origin: shop.url, hello: { url: `${pageOrigin}/cart`, ...visitor } })
      page = opened
      opened.socket.on('message', (data) => {
        const message: ServerMessage = JSON.parse(String(data))
        if (page === opened && !isLost(message)) session.receive(message)
      })
      const { id, is_anonymous } = opened.ready.user
      session.connected({ id, isAnonymous: is_anonymous, isResumed: opened.ready.resumed })
      return opened
    },
    drop() {
      page?.socket.terminate()
      page = undefined
      session.disconnected()
    },
    lose(next) {
      isLost = next
    },
    until: (condition) =>
      new Promise((resolve) => {
        const check = () => {
          if (!condition(session.state)) return
          checks.delete(check)
          resolve(session.state)
        }
        checks.add(check)
        check()
      }),
  }
}

const asStorage = (texts: Map<string, string>) => ({
  get length() {
    return texts.size
  },
  key: (index: number) => [...texts.keys()][index] ?? null,
  getItem: (key: string) => texts.get(key) ?? null,
  setItem: (key: string, text: string) => void texts.set(key, text),
  removeItem: (key: string) => void texts.delete(key),
})
