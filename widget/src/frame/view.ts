import { type Look, onlyReads, type PageTool } from '../channel.ts'
import type { Call, Decision } from './calls.ts'
import { plainText } from './plain-text.ts'
import type { LeftOut } from './tool-messages.ts'

export interface View {
  showStatus(text: string, tone: 'busy' | 'good' | 'bad'): void
  /** In the middle, in place of what is there otherwise. */
  showProblem(text: string | undefined): void
  showTools(tools: readonly PageTool[], leftOut: readonly LeftOut[]): void
  showCalls(calls: readonly Call[]): void
  /** Asks the person about a call, or about nothing any more. */
  ask(call: Call | undefined): void
  apply(look: Look): void
}

export interface ViewOptions {
  onClose(): void
  onDecision(id: string, decision: Decision): void
  onSize(width: number, height: number): void
}

/** Around a question, whose frame grows so that it can be seen whole. */
const dialogMargin = 28

const states: Record<Call['state'], string> = {
  asking: 'Waits for you',
  running: 'Running',
  done: 'Done',
  failed: 'Failed',
  declined: 'Declined',
  cancelled: 'Cancelled',
}

export function createView(root: HTMLElement, { onClose, onDecision, onSize }: ViewOptions): View {
  const status = make('span', { className: 'status', role: 'status' })
  const close = make('button', { className: 'close', type: 'button', ariaLabel: 'Close', hidden: true }, '✕')
  const header = make('header', {}, make('h1', {}, 'Agent'), status, close)
  const problem = make('p', { className: 'problem', role: 'alert', hidden: true })
  const nothing = make('p', { className: 'nothing' }, 'What your assistants do on this page shows up here.')
  const calls = make('ol', { className: 'calls', ariaLabel: 'Calls' })
  const content = make('div', { className: 'content' }, problem, nothing, calls)
  const main = make('main', {}, content)
  const count = make('summary', {})
  const tools = make('ul', { className: 'tools', ariaLabel: 'Tools of this page' })
  const footer = make('footer', {}, make('details', {}, count, tools))
  const dialog = make('dialog', { role: 'alertdialog' })
  dialog.setAttribute('aria-labelledby', 'question')
  root.replaceChildren(header, main, footer, dialog)

  let asked: string | undefined
  const decide = (decision: Decision) => {
    const id = asked
    asked = undefined
    dialog.close()
    if (id !== undefined) onDecision(id, decision)
  }
  dialog.oncancel = (event) => {
    event.preventDefault()
    decide('no')
  }
  close.onclick = onClose
  root.onkeydown = ({ key }) => {
    if (key === 'Escape' && !dialog.open && !close.hidden) onClose()
  }
  const measure = new ResizeObserver(() => {
    // While the element hides the frame, everything in it is as narrow as it gets.
    if (root.offsetWidth === 0) return
    const height = header.offsetHeight + content.offsetHeight + footer.offsetHeight
    onSize(root.offsetWidth, Math.max(height, dialog.scrollHeight + dialogMargin))
  })
  for (const part of [header, content, footer, dialog]) measure.observe(part)

  const rows = new Map<string, HTMLLIElement>()
  return {
    showStatus(text, tone) {
      status.textContent = text
      status.dataset.tone = tone
    },
    showProblem(text) {
      problem.textContent = text ?? ''
      problem.hidden = text === undefined
      nothing.hidden = text !== undefined || rows.size > 0
    },
    showTools(list, leftOut) {
      count.textContent = list.length === 1 ? '1 tool of this page' : `${list.length} tools of this page`
      const left = leftOut.map(({ name, reason }) =>
        make('li', {}, make('b', {}, plainText(name)), ` isn’t offered: ${reason}`),
      )
      tools.replaceChildren(...list.map(describeTool), ...left)
    },
    showCalls(list) {
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
        const text = call.message ? `${states[call.state]}: ${plainText(call.message)}` : states[call.state]
        if (state && state.textContent !== text) state.textContent = text
      }
      nothing.hidden = !problem.hidden || rows.size > 0
    },
    ask(call) {
      if (call?.id === asked) return
      asked = call?.id
      if (!call) return dialog.close()
      dialog.replaceChildren(...describeQuestion(call, decide))
      if (!dialog.open) dialog.showModal()
    },
    apply({ theme, canClose, styles }) {
      const { style } = document.documentElement
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

/** What a page may change, when it is what it should be. */
const properties: Record<string, (value: string) => boolean> = {
  accent: (value) => CSS.supports('color', value),
  background: (value) => CSS.supports('color', value),
  text: (value) => CSS.supports('color', value),
  radius: (value) => CSS.supports('border-radius', value),
  font: (value) => CSS.supports('font-family', value),
}

const nameOf = ({ title, name }: PageTool) => plainText(title ?? name)

const describeTool = (tool: PageTool) =>
  make(
    'li',
    {},
    make('b', {}, nameOf(tool)),
    make('span', { className: 'hint' }, onlyReads(tool) ? 'only reads' : 'asks you first'),
    make('span', { className: 'description' }, plainText(tool.description)),
  )

const describeCall = ({ tool, args }: Call) =>
  make(
    'li',
    {},
    make('b', {}, nameOf(tool)),
    make('span', { className: 'state' }),
    make('details', {}, make('summary', {}, 'Input'), make('pre', {}, textOf(args))),
  )

/** Declining is what a hasty key press does. */
const describeQuestion = ({ tool, args }: Call, decide: (decision: Decision) => void) => {
  const button = (text: string, decision: Decision, autofocus = false) =>
    make('button', { type: 'button', className: decision, autofocus, onclick: () => decide(decision) }, text)
  return [
    make('h2', { id: 'question' }, `Allow “${nameOf(tool)}”?`),
    make('p', {}, 'An assistant of yours wants to use this tool of the page. The page says of it:'),
    make('blockquote', {}, plainText(tool.description)),
    make('p', {}, 'It would be called with:'),
    make('pre', { tabIndex: 0, ariaLabel: 'Input of the call' }, textOf(args)),
    make(
      'div',
      { className: 'choices' },
      button('Decline', 'no', true),
      button('Allow once', 'once'),
      button('Always allow here', 'always'),
    ),
  ]
}

const textOf = (args: Record<string, unknown>) =>
  plainText(Object.keys(args).length > 0 ? JSON.stringify(args, null, 2) : 'nothing', 4000)

function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Partial<HTMLElementTagNameMap[Tag]>,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = Object.assign(document.createElement(tag), properties)
  element.append(...children)
  return element
}
