import { Component, type ComponentChild, createRef, h } from 'preact'
import { highlight } from './highlight.ts'
import { visibleCode } from './visible-text.ts'

export interface CodeBlockStrings {
  /** Name of the code for screen readers. */
  code: string
  copy: string
  copied: string
  /** Shown if the browser doesn't allow it. The code is selected then. */
  selected: string
}

interface Props {
  text: string
  language: string
  strings: CodeBlockStrings
}

type Label = 'copy' | 'copied' | 'selected'

const labelDuration = 2000

/** Code with its language and a button that copies it. */
export class CodeBlock extends Component<Props, { label: Label }> {
  override state: { label: Label } = { label: 'copy' }
  #code = createRef<HTMLElement>()
  #timer: ReturnType<typeof setTimeout> | undefined

  override shouldComponentUpdate(next: Props, { label }: { label: Label }): boolean {
    const { text, language, strings } = this.props
    return text !== next.text || language !== next.language || strings !== next.strings || label !== this.state.label
  }

  override componentWillUnmount(): void {
    clearTimeout(this.#timer)
  }

  /** Copies what is shown, so that invisible characters can't be pasted elsewhere. */
  #copy = async () => {
    const label: Label = (await copyText(this.#code.current)) ? 'copied' : 'selected'
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.setState({ label: 'copy' }), labelDuration)
    this.setState({ label })
  }

  override render({ text, language, strings }: Props, { label }: { label: Label }): ComponentChild {
    const pieces = highlight(visibleCode(text), language).map(([kind, piece]) =>
      kind ? h('span', { class: `md-${kind}` }, piece) : piece,
    )
    const name = visibleCode(language)
    return h(
      'div',
      { class: 'md-code', dir: 'ltr' },
      h(
        'div',
        { class: 'md-code-head' },
        h('span', { class: 'md-language' }, name),
        h(
          'button',
          { type: 'button', class: 'md-copy', onClick: this.#copy },
          h('span', { 'aria-live': 'polite' }, strings[label]),
        ),
      ),
      h(
        'div',
        {
          class: 'md-scroll',
          role: 'group',
          'aria-label': name ? `${strings.code}: ${name}` : strings.code,
          tabIndex: 0,
        },
        h('pre', null, h('code', { ref: this.#code }, pieces)),
      ),
    )
  }
}

/** The clipboard may be closed to frames; the older command isn't. Leaves the code selected if both fail. */
async function copyText(code: HTMLElement | null): Promise<boolean> {
  if (!code) return false
  try {
    await navigator.clipboard.writeText(code.textContent ?? '')
    return true
  } catch {
    getSelection()?.selectAllChildren(code)
    const isCopied = document.execCommand('copy')
    if (isCopied) getSelection()?.removeAllRanges()
    return isCopied
  }
}
