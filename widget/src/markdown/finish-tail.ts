/** Longer runs of text are shown as they are while they're streamed. */
const maxRun = 5000

/** The start of a line that may become a heading, a list item, a quote, a rule or emphasis. */
const unfinishedStart =
  /^(?:(?:[-+*]|\d{1,3}[.)])[ \t]+)*(?:\[[ xX]?\]?|\d{1,3}[.)]?|#{1,6}|[`~]{1,2}|[-+*_]{1,3}|-+|=+|!?)$/
const fenceLine = /^[ \t>]*(?:(?:[-+*]|\d{1,3}[.)])[ \t]+)?(?:```|~~~)/
const partOfFence = /^[ \t>]*[`~]{1,2}$/
const tableAlignment = /^[ \t|:-]*$/

/**
 * Prepares the last block of a text that is still being written. Leaves out syntax whose meaning the next characters
 * decide, and closes what is open, so that the user sees neither asterisks nor a change of what's already there.
 */
export function finishTail(source: string): string {
  const lines = source.split('\n')
  const last = lines.at(-1) ?? ''
  if (last.length > maxRun) return source
  const withoutLast = source.slice(0, source.length - last.length)
  const isInCode = lines.slice(0, -1).filter((line) => fenceLine.test(line)).length % 2 === 1
  if (isInCode) return partOfFence.test(last) ? withoutLast : source
  const isUnfinished = fenceLine.test(last) || unfinishedStart.test(last.replace(/^[ \t>]+/, '').trimEnd())
  const finished = isUnfinished ? withoutLast : leaveOutTableStart(source, lines)
  const start = startOfRun(finished)
  return finished.length - start > maxRun ? finished : finished.slice(0, start) + closeInline(finished.slice(start))
}

/** A table's first line is only known to be one when the line below it is complete. */
function leaveOutTableStart(source: string, lines: readonly string[]): string {
  const first = lines.findIndex((line) => /^[ \t]*\|/.test(line))
  const rest = lines.slice(first)
  const isStart = first >= 0 && (rest.length === 1 || (rest.length === 2 && tableAlignment.test(rest[1] ?? '')))
  return isStart ? source.slice(0, source.length - rest.join('\n').length) : source
}

/** Where the last paragraph, list item, heading or table cell starts. */
function startOfRun(source: string): number {
  for (let end = source.length; end >= 0; ) {
    const start = source.lastIndexOf('\n', end - 1) + 1
    const line = source.slice(start, end)
    if (/^[ \t]*\|/.test(line)) return start + line.lastIndexOf('|') + 1
    const [marker] = /^(?:[ \t]*(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)(?=[ \t]|$))+/.exec(line) ?? []
    if (marker) return start + marker.length
    if (line.trim() === '' && end < source.length) return end
    end = start - 1
  }
  return 0
}

interface Opening {
  at: number
  after: number
  marker: string
  /** How many of its characters aren't closed. */
  count: number
}

/** Closes emphasis, code and links at the end of the text, or leaves out their start if nothing follows it. */
function closeInline(text: string): string {
  const body = text.trimEnd()
  const open: Opening[] = []
  let end = body.length
  let closing = ''
  for (let at = 0; at < end; ) {
    const marker = body.charAt(at)
    const after = at + (/[`*_~]/.test(marker) ? runLength(body, at) : 1)
    let next = after
    if (marker === '\\') next += 1
    else if (marker === '[') open.push({ at, after, marker, count: 1 })
    else if (marker === ']') {
      const index = open.findLastIndex((opening) => opening.marker === '[')
      const close = body.charAt(after) === '(' ? body.indexOf(')', after) : at
      // An unfinished address: shows the link's text alone.
      if (index >= 0 && close < 0) end = at
      else if (index >= 0) open.splice(index, 1)
      next = Math.max(close + 1, after)
    } else if (marker === '`') {
      const close = endOfCode(body, after, after - at)
      if (close === undefined) {
        end = after < end ? body.replace(/`+$/, '').length : at
        closing = after < end ? marker.repeat(after - at) : ''
        break
      }
      next = close
    } else if (after > at && /[*_~]/.test(marker)) readDelimiters(body, at, after, open)
    at = next
  }
  const leftOut = new Set<number>()
  for (const { at, after, marker, count } of open.reverse()) {
    const isEmpty = /^[*_~[\s]*$/.test(body.slice(after, end))
    if (marker !== '[' && !isEmpty) closing += marker.repeat(count)
    else for (let place = body.charAt(at - 1) === '!' ? at - 1 : at; place < after; place++) leftOut.add(place)
  }
  return Array.from({ length: end }, (_, at) => (leftOut.has(at) ? '' : body[at])).join('') + closing
}

function runLength(text: string, at: number): number {
  let end = at
  while (text[end] === text[at]) end++
  return end - at
}

/** The end of the code span that was opened before `from`. */
function endOfCode(text: string, from: number, ticks: number): number | undefined {
  for (let at = text.indexOf('`', from); at >= 0; ) {
    const length = runLength(text, at)
    if (length === ticks) return at + length
    at = text.indexOf('`', at + length)
  }
  return undefined
}

/** Opens or closes emphasis, roughly as Markdown does. */
function readDelimiters(text: string, at: number, after: number, open: Opening[]): void {
  const marker = text.charAt(at)
  const before = text.charAt(at - 1)
  const following = text.charAt(after)
  const isInsideWord = /\w/.test(before) && /\w/.test(following)
  if (isInsideWord || (marker === '~' && after - at === 1)) return
  const index = open.findLastIndex((opening) => opening.marker === marker)
  const opening = open[index]
  if (opening && /\S/.test(before)) {
    opening.count -= Math.min(opening.count, after - at)
    open.length = opening.count > 0 ? index + 1 : index
  } else if (!/\s/.test(following)) open.push({ at, after, marker, count: after - at })
}
