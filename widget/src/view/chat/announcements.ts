const longest = 400

/**
 * The next portion of streamed text for screen readers ends here: after the last complete sentence, so that they don't
 * read single words. Returns `from` if there is no complete sentence yet.
 */
export function endOfPortion(text: string, from: number, isEnded: boolean): number {
  const rest = text.slice(from)
  const window = rest.slice(0, longest)
  if (isEnded && rest.length <= longest) return text.length
  const ends = [...window.matchAll(/[.!?…:;]["'”’)\]*_]*\s|[。！？]|\n/g)].map(
    ({ 0: match, index }) => index + match.length,
  )
  const end = ends.at(-1)
  if (end !== undefined) return from + end
  if (rest.length <= longest) return from
  const space = window.lastIndexOf(' ')
  return from + (space > 0 ? space + 1 : longest)
}

/** Text without the marks of Markdown, which would be read aloud. */
export const readable = (markdown: string): string =>
  markdown
    .replace(/```\w*/g, ' ')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[*`~]+/g, '')
    .replace(/[_#>|]+|-{3,}/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
