import { Component, type ComponentChild, createRef, h } from 'preact'
import { finishTail } from './finish-tail.ts'
import { lexBlock } from './lex-block.ts'
import { type MarkdownStrings, renderBlocks, renderPlain } from './render-tokens.ts'
import { type SourceBlock, splitBlocks } from './split-blocks.ts'

export type { MarkdownStrings } from './render-tokens.ts'

interface Props {
  text: string
  /** Whether more text will follow. */
  isStreaming: boolean
  strings: MarkdownStrings
}

/**
 * Shows Markdown from the agent, which nobody has checked. When text is appended, only the last block is read and
 * rendered again.
 */
export class Markdown extends Component<Props> {
  #text = ''
  #root = createRef<HTMLElement>()
  #blocks: SourceBlock[] = []

  override shouldComponentUpdate({ text, isStreaming, strings }: Props): boolean {
    return text !== this.props.text || isStreaming !== this.props.isStreaming || strings !== this.props.strings
  }

  override componentDidMount(): void {
    levelHeadings(this.#root.current)
  }

  override componentDidUpdate(): void {
    levelHeadings(this.#root.current)
  }

  override render({ text: written, isStreaming, strings }: Props): ComponentChild {
    const text = written.replace(/\r\n?/g, '\n')
    this.#blocks = splitBlocks(text, text.startsWith(this.#text) ? this.#blocks : [])
    this.#text = text
    const last = this.#blocks.length - 1
    return h(
      'div',
      { class: 'md', ref: this.#root },
      this.#blocks.map(({ source }, index) =>
        h(Block, { key: index, source, isUnfinished: isStreaming && index === last, strings }),
      ),
    )
  }
}

/** The agent may skip levels, which would confuse users who navigate by headings. The panel has two levels above. */
function levelHeadings(root: HTMLElement | null): void {
  const open: string[] = []
  for (const heading of root?.querySelectorAll('h3, h4, h5, h6') ?? []) {
    while ((open.at(-1) ?? '') >= heading.tagName) open.pop()
    open.push(heading.tagName)
    heading.setAttribute('aria-level', `${open.length + 2}`)
  }
}

interface BlockProps {
  source: string
  isUnfinished: boolean
  strings: MarkdownStrings
}

class Block extends Component<BlockProps> {
  override shouldComponentUpdate({ source, isUnfinished, strings }: BlockProps): boolean {
    const { props } = this
    return source !== props.source || isUnfinished !== props.isUnfinished || strings !== props.strings
  }

  override render({ source, isUnfinished, strings }: BlockProps): ComponentChild {
    const text = isUnfinished ? finishTail(source) : source
    const tokens = lexBlock(text)
    return tokens ? renderBlocks(tokens, strings) : renderPlain(text)
  }
}
