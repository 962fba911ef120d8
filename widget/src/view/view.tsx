import { type JSX, render } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Look, PageTool } from '../channel.ts'
import type { ChatSession, ChatState } from '../chat/state.ts'
import type { Call, Decision, Permission } from '../frame/calls.ts'
import type { Problem } from '../frame/connection.ts'
import { plainText } from '../frame/plain-text.ts'
import { explainProblem } from '../frame/problems.ts'
import type { LeftOut } from '../frame/tool-messages.ts'
import markdown from '../markdown/markdown.css'
import { Chat } from './chat/chat.tsx'
import { Composer } from './chat/composer.tsx'
import { AdoptionOffer, ConnectedNotice, type Connectedness, ConnectionBanner, RequestProblem } from './chat/states.tsx'
import { SessionProvider, TextsContext } from './context.ts'
import { FollowingMain } from './following-main.tsx'
import { Header, type Page } from './header.tsx'
import { applyStyles, checkLook, type SafeLook } from './look.ts'
import { Activity, PageTools } from './pages/activity.tsx'
import { clientOf, labelOfCall } from './pages/call-texts.ts'
import { Conversations } from './pages/conversations.tsx'
import type { EarlierCall } from './pages/earlier-calls.ts'
import { type BrowserTrust, ConfirmingContext, trusted } from './questions/confirm-browser.tsx'
import { DockedQuestion } from './questions/docked-question.tsx'
import { watchForSurprises } from './questions/surprises.ts'
import { findQuestion, watchSize } from './size.ts'
import { createTexts } from './strings.ts'
import base from './style/base.css'
import chatStyle from './style/chat.css'
import pages from './style/pages.css'
import questions from './style/questions.css'

/** What the frame knows apart from the conversations. */
interface FrameState extends Connectedness {
  /** Why the server refuses the page. */
  problem: Problem | undefined
  isAnonymous: boolean
  trust: BrowserTrust
  tools: readonly PageTool[]
  leftOut: readonly LeftOut[]
  /** Newest last. `earlier` are calls from before the page was loaded. */
  calls: readonly Call[]
  earlier: readonly EarlierCall[]
  /** The user is asked about the first of these calls. */
  waiting: readonly Call[]
  permissions: readonly Permission[]
  /** The last call that ended before the user answered. */
  withdrawn: Call | undefined
}

interface ViewOptions {
  session: ChatSession
  onClose(): void
  onDecision(id: string, decision: Decision): void
  onRevoke(subject: string): void
  /** Opens the window that confirms the browser; false if that isn't allowed. */
  onConfirm(): boolean
  /** The question that had the keyboard focus is closed, and no other one is waiting. */
  /** The user wants to connect again after a refusal. */
  onRetry(): void
  onRelease(): void
  onSize(width: number, height: number): void
}

export interface View {
  show(changes: Partial<FrameState>): void
  /** Nothing is drawn before the first time. */
  apply(look: Look): void
}

const isDevelopment = document.documentElement.dataset.mode === 'development'
/** On a touch screen, a focused field would open the keyboard over the panel. */
const canHover = () => matchMedia('(hover: hover)').matches

export function createView(root: HTMLElement, options: ViewOptions): View {
  adoptStyles([base, markdown, chatStyle, questions, pages])
  let look: SafeLook | undefined
  let frame: FrameState = {
    state: 'connecting',
    isRestarting: false,
    isOnline: true,
    problem: undefined,
    isAnonymous: false,
    trust: trusted,
    tools: [],
    leftOut: [],
    calls: [],
    earlier: [],
    waiting: [],
    permissions: [],
    withdrawn: undefined,
  }
  /** Where the focus was in this document before it moved to the question. */
  let cameFrom: HTMLElement | undefined

  const draw = () => {
    if (!look) return
    render(
      <ConfirmingContext.Provider value={{ ...frame.trust, onConfirm: options.onConfirm }}>
        <Panel frame={frame} chat={options.session.state} look={look} options={options} />
      </ConfirmingContext.Provider>,
      root,
    )
    measure()
  }
  const measure = watchSize(root, options.onSize)
  options.session.subscribe(draw)
  watchForSurprises()
  root.replaceChildren()
  root.addEventListener('focusin', ({ target, relatedTarget }) => {
    const question = findQuestion(root)
    if (!question?.contains(target as Node)) return
    if (relatedTarget instanceof HTMLElement && question.contains(relatedTarget)) return
    cameFrom = relatedTarget instanceof HTMLElement ? relatedTarget : undefined
  })
  root.addEventListener('keydown', ({ key, repeat }) => {
    if (key === 'Escape' && !repeat && look?.canClose) options.onClose()
  })
  return {
    show(changes) {
      const before = frame.waiting[0]
      const hadFocus = document.hasFocus() && findQuestion(root)?.contains(document.activeElement)
      frame = { ...frame, ...changes }
      draw()
      if (!hadFocus || frame.waiting[0] === before) return
      // Focuses no button, because a key that is still held down must not answer the next question.
      if (frame.waiting[0]) findQuestion(root)?.focus()
      else if (cameFrom?.isConnected) cameFrom.focus()
      else options.onRelease()
    },
    apply(given) {
      const wasOpen = look?.isOpen
      look = checkLook(given)
      applyStyles(given)
      draw()
      // Only if the user has opened the panel: a panel that opens for a question doesn't have the focus.
      const isFree = document.activeElement === document.body && document.hasFocus()
      if (look.isOpen && look.canClose && !wasOpen && isFree && canHover())
        root.querySelector<HTMLElement>('.field')?.focus()
    },
  }
}

const isShown = ({ isOpen, canClose }: SafeLook) => isOpen || !canClose

function adoptStyles(texts: readonly string[]): void {
  document.adoptedStyleSheets = texts.map((text) => {
    const sheet = new CSSStyleSheet()
    sheet.replaceSync(text)
    return sheet
  })
}

interface PanelProps {
  frame: FrameState
  chat: ChatState
  look: SafeLook
  options: ViewOptions
}

function Panel({ frame, chat, look, options }: PanelProps): JSX.Element {
  const { session } = options
  const [page, setPage] = useState<Page>('chat')
  const [turn, setTurn] = useState(0)
  const strings = JSON.stringify(look.strings)
  const texts = useMemo(() => createTexts(look.language, JSON.parse(strings)), [look.language, strings])
  const { say } = texts
  useEffect(() => {
    document.documentElement.lang = texts.language
    document.documentElement.dir = texts.isRightToLeft ? 'rtl' : 'ltr'
  }, [texts])
  usePageFocus(page)

  const name = look.title || plainText(chat.agent?.name ?? '', 100) || say('agent')
  const greeting = look.greeting || plainText(chat.agent?.greeting ?? '', 1_000)
  const onSent = () => setTurn(turn + 1)
  const goTo = (thread: () => void) => {
    thread()
    setPage('chat')
    onSent()
  }
  return (
    <TextsContext.Provider value={texts}>
      <SessionProvider value={session}>
        <Header
          page={page}
          name={name}
          state={frame.state}
          toolCount={frame.tools.length}
          serviceCount={chat.agent?.connectorCount ?? 0}
          canClose={look.canClose}
          onPage={setPage}
          onNewThread={() => goTo(() => session.newThread())}
          onClose={options.onClose}
        />
        {page === 'chat' && (
          <Chat
            chat={chat}
            agentName={name}
            greeting={greeting}
            refusal={frame.problem && explainProblem(frame.problem, isDevelopment)}
            onRetry={options.onRetry}
            isShown={isShown(look)}
            turn={turn}
            onSent={onSent}
          />
        )}
        {page === 'conversations' && (
          <FollowingMain content={page} isFixed>
            <Conversations
              list={chat.threads}
              openThreadId={chat.threadId}
              onOpen={(id) => goTo(() => session.openThread(id))}
            />
          </FollowingMain>
        )}
        {page === 'activity' && (
          <FollowingMain content={page}>
            <Activity isAnonymous={frame.isAnonymous} calls={frame.calls} earlier={frame.earlier} tools={frame.tools} />
          </FollowingMain>
        )}
        {page !== 'activity' && chat.canAdopt && <AdoptionOffer />}
        {page !== 'activity' && chat.problem && <RequestProblem problem={chat.problem} />}
        {chat.connectedService && <ConnectedNotice service={chat.connectedService} />}
        {page === 'chat' && <ConnectionBanner {...frame} />}
        <div class="asking measured">
          <p class="notice" role="status">
            {frame.withdrawn &&
              say('withdrawn', {
                client: clientOf(frame.withdrawn, texts),
                name: labelOfCall(frame.withdrawn),
                reason: plainText(frame.withdrawn.message ?? ''),
              })}
          </p>
          {frame.waiting[0] && (
            <DockedQuestion
              call={frame.waiting[0]}
              count={frame.waiting.length}
              isShown={isShown(look)}
              onDecision={options.onDecision}
            />
          )}
        </div>
        {page === 'chat' && (
          <Composer
            chat={chat}
            isAnonymous={frame.isAnonymous}
            isOff={chat.agent?.problem !== undefined || frame.problem !== undefined}
            onSent={onSent}
          />
        )}
        {page === 'activity' && (
          <PageTools
            tools={frame.tools}
            leftOut={frame.leftOut}
            permissions={frame.permissions}
            onRevoke={options.onRevoke}
          />
        )}
      </SessionProvider>
    </TextsContext.Provider>
  )
}

/** Moves the focus with the user to another page of the panel. */
function usePageFocus(page: Page): void {
  const shown = useRef(page)
  useEffect(() => {
    if (shown.current === page) return
    shown.current = page
    if (!document.hasFocus()) return
    const target = page === 'chat' && canHover() ? '.field' : 'header button'
    document.querySelector<HTMLElement>(target)?.focus()
  }, [page])
}
