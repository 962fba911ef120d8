/** A part of a text that Markdown can be read from alone. */
export interface SourceBlock {
  start: number
  source: string
}

type BlockKind = 'none' | 'prose' | 'list' | 'indented' | 'fence'

const blank = /^[ \t]*$/
const fence = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/
const listMarker = /^ {0,3}(?:([*+-])|\d{1,9}([.)]))(?:[ \t]|$)/
/** The lists that may start right below a paragraph's line. */
const interruptingList = /^ {0,3}(?:[*+-]|1[.)])[ \t]+[^ \t]/

/**
 * Splits a text where no syntax can span the border: at blank lines outside of lists and code, and around fenced code.
 *
 * When a text has grown, pass its earlier blocks: all but the last two are taken as they are. The first line of the last
 * one may have been incomplete, and may now continue the block before it.
 */
export function splitBlocks(text: string, earlier: readonly SourceBlock[] = []): SourceBlock[] {
  const blocks = earlier.slice(0, -2)
  let start = earlier.at(blocks.length)?.start ?? 0
  let kind = 'none' as BlockKind
  /** The fence that is open, or the marker of the list's last item. */
  let marker = ''
  let isAfterBlank = false

  const begin = (at: number, line: string) => {
    if (kind !== 'none') blocks.push({ start, source: text.slice(start, at) })
    start = at
    const [, opening] = fence.exec(line) ?? []
    const item = listMarker.exec(line)
    marker = opening ?? item?.[1] ?? item?.[2] ?? ''
    kind = opening ? 'fence' : item ? 'list' : /^(?: {4}| {0,3}\t)/.test(line) ? 'indented' : 'prose'
  }

  for (let at = start; at < text.length; ) {
    const end = text.indexOf('\n', at)
    const next = end < 0 ? text.length : end + 1
    const line = text.slice(at, end < 0 ? text.length : end)
    if (kind === 'fence') {
      // `isAfterBlank` makes the line below the closing fence start a block.
      if (closes(line, marker)) [kind, isAfterBlank] = ['prose', true]
    } else if (blank.test(line)) {
      isAfterBlank = true
    } else {
      const item = listMarker.exec(line)
      const continuesList = kind === 'list' && (/^(?: {2}|\t)/.test(line) || (item && (item[1] ?? item[2]) === marker))
      const continuesCode = kind === 'indented' && /^(?: {4}|\t)/.test(line)
      const startsAfterBlank = (kind === 'none' || isAfterBlank) && !continuesList && !continuesCode
      const startsFence = fence.test(line) && !continuesList
      const startsList = kind !== 'list' && interruptingList.test(line)
      if (startsAfterBlank || startsFence || startsList) begin(at, line)
      else if (item && kind === 'list' && !/^ {2}/.test(line)) marker = item[1] ?? item[2] ?? ''
      isAfterBlank = false
    }
    at = next
  }
  if (start < text.length) blocks.push({ start, source: text.slice(start) })
  return blocks
}

function closes(line: string, opening: string): boolean {
  const found = line.trim()
  return found.length >= opening.length && found === found.charAt(0).repeat(found.length) && found[0] === opening[0]
}
