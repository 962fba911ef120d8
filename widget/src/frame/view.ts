import { type Look, onlyReads, type PageTool } from '../channel.ts'
import { AnswerDelay } from './answer-delay.ts'
import type { Call, Decision, EarlierCall, Permission } from './calls.ts'
import type { Problem, Status } from './connection.ts'
import css from './frame.css'
import { exactJson, plainText } from './plain-text.ts'
import { explainProblem } from './problems.ts'
import type { LeftOut } from './tool-messages.ts'

export interface View {
  /** A problem replaces the empty-state text. */
  showStatus(state: Status['state'], problem: Problem | undefined): void
  showVisitor(isAnonymous: boolean): void
  showTools(tools: readonly PageTool[], leftOut: readonly LeftOut[]): void
  /** Newest last. `earlier` are calls from before the page was loaded. */
  showCalls(calls: readonly Call[], earlier: readonly EarlierCall[]): void
  /** Asks the user about the first of these calls. */
  ask(waiting: readonly Call[]): void
  showWithdrawal(call: Call): void
  showPermissions(permissions: readonly Permission[]): void
  apply(look: Look): void
}

export interface ViewOptions {
  onClose(): void
  onDecision(id: string, decision: Decision): void
  onRevoke(subject: string): void
  /** The question that had the keyboard focus is closed, and no other one is waiting. */
  onRelease(): void
  onSize(width: number, height: number): void
}

const isDevelopment = document.documentElement.dataset.mode === 'development'

/** Longer input is collapsed. */
const unfolded = { characters: 600, lines: 12 }

const forSignedIn = 'Calls from your assistants to this page appear here.'
const forAnonymous = 'You’re not signed in to this site. Assistants can only use this page for visitors who are.'

const states: Record<Call['state'], string> = {
  asking: 'Waiting for approval',
  allowed: 'Allowed',
  running: 'Running',
  done: 'Done',
  failed: 'Failed',
  declined: 'Declined',
  cancelled: 'Cancelled',
}

const statusTexts = {
  idle: ['Not connected', 'busy'],
  connecting: ['Connecting…', 'busy'],
  connected: ['Connected', 'good'],
  waiting: ['Connection lost, reconnecting…', 'busy'],
  unidentified: ['Signing in again…', 'busy'],
  refused: ['Not available', 'bad'],
} as const satisfies Record<Status['state'], [string, 'busy' | 'good' | 'bad']>

export function createView(root: HTMLElement, options: ViewOptions): View {
  const { onClose, onDecision, onRevoke, onRelease, onSize } = options
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(css)
  document.adoptedStyleSheets = [sheet]
  const status = make('span', { className: 'status', role: 'status' })
  const close = make('button', { className: 'close', type: 'button', ariaLabel: 'Close', hidden: true }, '✕')
  const header = make('header', {}, make('h1', {}, 'Agent'), status, close)
  const problem = make('p', { className: 'problem', role: 'alert', hidden: true })
  const nothing = make('p', { className: 'nothing' })
  const earlierCalls = make('ol', { className: 'calls', ariaLabel: 'Earlier' })
  const calls = make('ol', { className: 'calls', ariaLabel: 'Calls' })
  const content = make('div', { className: 'content' }, problem, nothing, earlierCalls, calls)
  const main = make('main', {}, content)
  const count = make('summary', {})
  const tools = make('ul', { className: 'tools', ariaLabel: 'Tools on this page' })
  const permissionCount = make('summary', {})
  const permissions = make('ul', { className: 'tools', ariaLabel: 'Standing permissions' })
  const granted = make('details', { hidden: true }, permissionCount, permissions)
  const footer = make('footer', {}, granted, make('details', {}, count, tools))
  const notice = make('p', { className: 'notice', role: 'status' })
  const questionText = make('div', { className: 'question-text', ariaLive: 'polite' })
  const questionScroller = make('div', { className: 'question-scroller' }, questionText)
  const choices = make('div', { className: 'choices' })
  // Neither modal nor focused automatically, because the user may be typing in the page. Screen readers announce its
  // text.
  const question = make('section', { className: 'question', role: 'alertdialog', tabIndex: -1, hidden: true })
  question.setAttribute('aria-labelledby', 'question')
  question.append(questionScroller, choices)
  const asking = make('div', { className: 'asking' }, notice, question)
  root.replaceChildren(header, main, asking, footer)

  let asked: Call | undefined
  let offered: readonly PageTool[] = []
  let leftOut: readonly LeftOut[] = []
  let allowed = new Set<string>()
  let shownPermissions = ''
  let wasOpen = false
  const delay = new AnswerDelay((isOver) => {
    for (const button of choices.querySelectorAll('button')) button.ariaDisabled = String(!isOver)
  })
  const decide = (decision: Decision, clicks: number) => {
    if (!asked || !delay.accepts(clicks)) return
    notice.textContent = ''
    onDecision(asked.id, decision)
  }
  const hasFocus = () => document.hasFocus() && question.contains(document.activeElement)
  const listTools = () => {
    const left = leftOut.map(({ name, reason }) =>
      make('li', {}, make('b', {}, plainText(name)), ` isn’t offered: ${reason}`),
    )
    const list = offered.map((tool) => describeTool(tool, allowed.has(JSON.stringify(tool))))
    tools.replaceChildren(...list, ...left)
  }
  close.onclick = onClose
  root.onkeydown = ({ key, repeat, target }) => {
    // A key that is held down must not answer the next question too.
    if (key !== 'Escape' || repeat) return
    if (question.contains(target as Node)) decide('no', 0)
    else if (!close.hidden) onClose()
  }
  document.addEventListener('visibilitychange', () => document.hidden || delay.restart())
  /** Whether to keep the newest call in view; false once the user scrolls up. */
  let isFollowing = true
  const followCalls = () => {
    if (isFollowing) main.scrollTop = main.scrollHeight
  }
  main.onscroll = () => {
    if (root.offsetWidth > 0) isFollowing = main.scrollTop + main.clientHeight >= main.scrollHeight - 1
  }
  const measure = new ResizeObserver(() => {
    // While the element hides the frame, sizes are meaningless.
    if (root.offsetWidth === 0) return
    followCalls()
    // Lets the frame grow so that the whole question is visible.
    const hiddenText = questionText.offsetHeight - questionScroller.offsetHeight
    const parts = [header, content, asking, footer].map((part) => part.offsetHeight)
    onSize(
      root.offsetWidth,
      parts.reduce((sum, height) => sum + height, hiddenText),
    )
  })
  for (const part of [header, content, asking, questionText, footer]) measure.observe(part)

  const rows = new Map<string, HTMLLIElement>()
  let shownEarlier: readonly EarlierCall[] = []
  let shownKey = '[]'
  const listEarlierCalls = (list: readonly EarlierCall[]) => {
    shownEarlier = list
    const names = new Map(offered.map((tool) => [tool.name, nameOf(tool)]))
    const key = JSON.stringify(list.map(({ id, name }) => [id, names.get(name)]))
    // Skips the update for changes of other calls.
    if (key === shownKey) return
    shownKey = key
    earlierCalls.replaceChildren(...list.map((call) => describeEarlierCall(call, names.get(call.name))))
  }
  const isEmpty = () => rows.size === 0 && earlierCalls.children.length === 0
  return {
    showStatus(state, found) {
      const [text, tone] = statusTexts[state]
      status.textContent = text
      status.dataset.tone = tone
      problem.textContent = found ? explainProblem(found, isDevelopment) : ''
      problem.hidden = !found
      nothing.hidden = !problem.hidden || !isEmpty()
    },
    showVisitor(isAnonymous) {
      nothing.textContent = isAnonymous ? forAnonymous : forSignedIn
    },
    showTools(list, left) {
      count.textContent = list.length === 1 ? '1 tool on this page' : `${list.length} tools on this page`
      offered = list
      leftOut = left
      listTools()
      listEarlierCalls(shownEarlier)
    },
    showPermissions(list) {
      const subjects = list.map(({ subject }) => subject).join('\n')
      if (subjects === shownPermissions) return
      shownPermissions = subjects
      allowed = new Set(list.flatMap(({ tool, connector }) => (connector ? [] : [JSON.stringify(tool)])))
      listTools()
      const hadFocus = permissions.contains(document.activeElement)
      granted.hidden = list.length === 0
      permissionCount.textContent = list.length === 1 ? '1 standing permission' : `${list.length} standing permissions`
      permissions.replaceChildren(...list.map((permission) => describePermission(permission, onRevoke)))
      if (hadFocus) (granted.hidden ? count : permissionCount).focus()
    },
    showCalls(list, earlier) {
      listEarlierCalls(earlier)
      const ids = new Set(list.map(({ id }) => id))
      for (const [id, row] of rows) {
        if (ids.has(id)) continue
        row.remove()
        rows.delete(id)
      }
      for (const call of list) {
        const row = rows.get(call.id) ?? describeCall(call)
        rows.set(call.id, row)
        if (!row.isConnected) calls.append(row)
        row.dataset.state = call.state
        const state = row.querySelector('.state')
        // The outcome of a call at a tool server isn't known here.
        const name = call.connector && call.state === 'done' ? states.allowed : states[call.state]
        const text = call.message ? `${name}: ${plainText(call.message)}` : name
        if (state && state.textContent !== text) state.textContent = text
      }
      nothing.hidden = !problem.hidden || !isEmpty()
      followCalls()
    },
    showWithdrawal(call) {
      notice.textContent = describeWithdrawal(call)
    },
    ask(waiting) {
      const [next] = waiting
      if (next !== asked) {
        const hadFocus = hasFocus()
        asked = next
        question.hidden = !next
        if (next) {
          questionText.replaceChildren(...describeQuestion(next))
          choices.replaceChildren(...describeChoices(decide))
          questionScroller.scrollTop = 0
          delay.restart()
          // Focuses no button, because a key that is still held down must not answer the next question.
          if (hadFocus) question.focus()
        } else if (hadFocus) onRelease()
      }
      const place = question.querySelector('.place')
      if (place) place.textContent = waiting.length > 1 ? `1 of ${waiting.length}` : ''
    },
    apply({ theme, canClose, isOpen, styles }) {
      const { style } = document.documentElement
      if (isOpen && !wasOpen) delay.restart()
      wasOpen = isOpen
      style.colorScheme = theme
      close.hidden = !canClose
      for (const [name, isGood] of Object.entries(properties)) {
        const value = styles[name]
        if (value !== undefined && isGood(value)) style.setProperty(`--inlay-${name}`, value)
        else style.removeProperty(`--inlay-${name}`)
      }
    },
  }
}

/** Styles that a page may set, with their validation. */
const properties: Record<string, (value: string) => boolean> = {
  accent: (value) => CSS.supports('color', value),
  background: (value) => CSS.supports('color', value),
  text: (value) => CSS.supports('color', value),
  radius: (value) => CSS.supports('border-radius', value),
  font: (value) => CSS.supports('font-family', value),
}

const nameOf = ({ title, name }: PageTool) => plainText(title ?? name)

/** Includes the connector's name, so that a page's tool can't be mistaken for it. */
const labelOf = ({ tool, connector }: Pick<Call, 'tool' | 'connector'>) =>
  connector ? `${plainText(connector.name)}: ${nameOf(tool)}` : nameOf(tool)

const clientOf = ({ client }: Pick<Call, 'client'>) => plainText(client ?? '', 100) || 'Your assistant'

const describeTool = (tool: PageTool, isAllowed: boolean) =>
  make(
    'li',
    {},
    make('b', {}, nameOf(tool)),
    make('span', { className: 'hint' }, onlyReads(tool) ? 'Reads only' : isAllowed ? 'Always allowed' : 'Asks first'),
    make('span', { className: 'description' }, plainText(tool.description)),
  )

const describePermission = (permission: Permission, onRevoke: (subject: string) => void) => {
  const label = labelOf(permission)
  const revoke = make('button', { type: 'button', onclick: () => onRevoke(permission.subject) }, 'Revoke')
  revoke.ariaLabel = `Revoke “${label}”`
  const extent = make('span', { className: 'description' }, 'Runs without asking until you leave this page.')
  return make('li', { className: 'permission' }, make('div', {}, make('b', {}, label), extent), revoke)
}

const describeCall = (call: Call) =>
  make(
    'li',
    {},
    make('b', {}, labelOf(call)),
    make('span', { className: 'state' }),
    make('span', { className: 'client' }, clientOf(call)),
    make('details', {}, make('summary', {}, 'Input'), ...describeInput(call)),
  )

const describeWish = ({ connector, tool }: Call) =>
  connector
    ? ` wants to use the tool ${plainText(tool.name)} on your organization’s server ${plainText(connector.origin)} as you. It doesn’t run on this page. The server describes it as:`
    : ' wants to use a tool on this page. The page describes it as:'

function describeEarlierCall(call: EarlierCall, title = plainText(call.name)) {
  const state = call.message ? `${states[call.state]}: ${call.message}` : states[call.state]
  const time = make(
    'time',
    { dateTime: call.at.toISOString() },
    call.at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' }),
  )
  const row = make(
    'li',
    {},
    make('b', {}, title),
    make('span', { className: 'state' }, state),
    make('span', { className: 'client' }, clientOf(call), ' · ', time),
  )
  row.dataset.state = call.state
  return row
}

const describeQuestion = (call: Call) => [
  make(
    'div',
    { className: 'question-head' },
    make('h2', { id: 'question' }, `Allow “${labelOf(call)}”?`),
    make('span', { className: 'place' }),
  ),
  make('p', {}, make('b', {}, clientOf(call)), describeWish(call)),
  make('blockquote', {}, plainText(call.tool.description)),
  ...(call.isRepeated ? [make('p', {}, 'You have already allowed this call with the same input.')] : []),
  make('p', {}, 'Input:'),
  ...describeInput(call),
]

const describeChoices = (decide: (decision: Decision, clicks: number) => void) => {
  const button = (text: string, decision: Decision) =>
    make('button', { type: 'button', className: decision, onclick: ({ detail }) => decide(decision, detail) }, text)
  return [
    button('Allow once', 'once'),
    button('Decline', 'no'),
    make('details', { className: 'more' }, make('summary', {}, 'More options'), button('Always allow here', 'always')),
  ]
}

const describeWithdrawal = (call: Call) =>
  `${clientOf(call)} is no longer waiting for “${labelOf(call)}”: ${plainText(call.message ?? '')}. Nothing was done.`

/** Shows the exact input. Long input is collapsed, and shown completely once expanded. */
const describeInput = ({ args }: Call): HTMLElement[] => {
  if (Object.keys(args).length === 0) return [make('pre', {}, 'No input')]
  const text = exactJson(args)
  const firstLines = text.split('\n', unfolded.lines).join('\n')
  const first = [...firstLines.slice(0, 2 * unfolded.characters)].slice(0, unfolded.characters).join('')
  const input = make('pre', { tabIndex: 0, ariaLabel: 'Input of the call' }, ...isolateStrings(first))
  if (first === text) return [input]
  const rest = (text.length - first.length).toLocaleString('en')
  const unfold = make('button', { type: 'button', className: 'unfold' }, `Show all: ${rest} more characters`)
  unfold.onclick = () => {
    input.replaceChildren(...isolateStrings(text))
    input.focus()
    unfold.remove()
  }
  return [input, unfold]
}

/** Right-to-left letters must not reorder the JSON around them. */
const isolateStrings = (json: string) =>
  json.split(/("(?:[^"\\]|\\.)*")/).map((part, index) => (index % 2 === 1 ? make('bdi', {}, part) : part))

function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Partial<HTMLElementTagNameMap[Tag]>,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = Object.assign(document.createElement(tag), properties)
  element.append(...children)
  return element
}
