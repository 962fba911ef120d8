import type { MarkedToken, Token, Tokens } from 'marked'
import { type ComponentChild, h } from 'preact'
import { CodeBlock, type CodeBlockStrings } from './code-block.ts'
import { readAddress, showsDestination } from './safe-links.ts'
import { decodeReferences, visibleCode, visibleText } from './visible-text.ts'

export interface MarkdownStrings extends CodeBlockStrings {
  /** Name of a table for screen readers. */
  table: string
  /** A checked and an unchecked item of a task list, for screen readers. */
  done: string
  notDone: string
}

/** Text as it was written, with its line breaks. */
export const renderPlain = (text: string): ComponentChild =>
  h('p', { class: 'md-plain', dir: 'auto' }, visibleText(text.trim()))

/**
 * Creates elements for tokens. Strings only become text: they never pass through an HTML parser, and no token can
 * choose an element, an attribute or a class.
 */
export const renderBlocks = (tokens: readonly Token[], strings: MarkdownStrings): ComponentChild[] =>
  (tokens as readonly MarkedToken[]).map((token) => renderBlock(token, strings, 'auto'))

/** A quote or a list gets its direction from its text. Browsers ignore children for this that have their own. */
const renderInside = (tokens: readonly Token[], strings: MarkdownStrings): ComponentChild[] =>
  (tokens as readonly MarkedToken[]).map((token) => renderBlock(token, strings, undefined))

function renderBlock(token: MarkedToken, strings: MarkdownStrings, dir: 'auto' | undefined): ComponentChild {
  switch (token.type) {
    case 'space':
      return null
    case 'heading':
      // The panel and the message have headings above these.
      return h(`h${Math.min(token.depth + 2, 6)}`, { dir }, renderInline(token.tokens, strings))
    case 'paragraph':
      return h('p', { dir }, renderInline(token.tokens, strings))
    case 'code':
      return h(CodeBlock, { text: token.text, language: /^[\w+#.-]{0,20}/.exec(token.lang ?? '')?.[0] ?? '', strings })
    case 'blockquote':
      return h('blockquote', { dir }, renderInside(token.tokens, strings))
    case 'list':
      return renderList(token, strings, dir)
    case 'table':
      return renderTable(token, strings)
    case 'hr':
      return h('hr', null)
    case 'html':
      return renderPlain(token.raw)
    case 'text':
      return token.tokens ? renderInline(token.tokens, strings) : visibleText(token.raw)
    default:
      return renderInline([token], strings)
  }
}

function renderList(
  { ordered, start, items }: Tokens.List,
  strings: MarkdownStrings,
  dir: 'auto' | undefined,
): ComponentChild {
  const children = items.map(({ tokens, task }) =>
    h('li', { class: task ? 'md-task' : undefined }, renderInside(tokens, strings)),
  )
  if (!ordered) return h('ul', { dir }, children)
  return h('ol', { dir, start: start === '' || start === 1 ? undefined : start }, children)
}

function renderTable({ header, rows }: Tokens.Table, strings: MarkdownStrings): ComponentChild {
  const renderCell = ({ header: isHeader, align, tokens }: Tokens.TableCell) =>
    h(
      isHeader ? 'th' : 'td',
      { dir: 'auto', scope: isHeader ? 'col' : undefined, class: align ? `md-${align}` : undefined },
      renderInline(tokens, strings),
    )
  const renderRow = (cells: Tokens.TableCell[]) => h('tr', null, cells.map(renderCell))
  return h(
    'div',
    { class: 'md-table md-scroll', role: 'group', 'aria-label': strings.table, tabIndex: 0 },
    h('table', null, h('thead', null, renderRow(header)), h('tbody', null, rows.map(renderRow))),
  )
}

function renderInline(tokens: readonly Token[], strings: MarkdownStrings, isInLink = false): ComponentChild[] {
  return (tokens as readonly MarkedToken[]).map((token) => {
    switch (token.type) {
      case 'strong':
      case 'em':
      case 'del':
        return h(token.type, null, renderInline(token.tokens, strings, isInLink))
      case 'codespan':
        return h('code', { dir: 'auto' }, visibleCode(token.text))
      case 'br':
        return h('br', null)
      case 'checkbox':
        return h('span', {
          class: token.checked ? 'md-box md-checked' : 'md-box',
          role: 'img',
          'aria-label': token.checked ? strings.done : strings.notDone,
        })
      case 'link':
      case 'image':
        return renderLink(token, strings, isInLink)
      case 'escape':
        return visibleText(token.text)
      case 'text':
        return token.tokens ? renderInline(token.tokens, strings, isInLink) : visibleText(decodeReferences(token.raw))
      default:
        return visibleText(token.raw)
    }
  })
}

/** Images are links too: loading them would tell another server that the user has read this. */
function renderLink(token: Tokens.Link | Tokens.Image, strings: MarkdownStrings, isInLink: boolean): ComponentChild {
  const isLiteral = token.type === 'link' && token.autolink === true
  const link = isInLink ? undefined : readAddress(isLiteral ? token.href : decodeReferences(token.href))
  const content = isLiteral
    ? [visibleText(token.text)]
    : renderInline(token.tokens, strings, isInLink || link !== undefined)
  if (!link) return content
  const label = textOf(content).trim()
  const attributes = {
    href: link.href,
    target: '_blank',
    rel: 'noopener noreferrer nofollow',
    referrerpolicy: 'no-referrer' as const,
  }
  if (!label) return h('a', attributes, h('bdi', { dir: 'ltr' }, link.href))
  if (showsDestination(label, link)) return h('a', attributes, h('bdi', null, content))
  const destination = h('bdi', { dir: 'ltr', class: 'md-destination' }, `(${link.destination})`)
  return h('a', attributes, h('bdi', null, content), ' ', destination)
}

function textOf(child: ComponentChild | ComponentChild[]): string {
  if (typeof child === 'string') return child
  if (Array.isArray(child)) return child.map(textOf).join('')
  if (child === null || typeof child !== 'object' || !('props' in child)) return ''
  return textOf((child.props as { children?: ComponentChild }).children ?? '')
}
