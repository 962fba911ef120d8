import { cleanName } from '../../kernel/lib/names.ts'

const maxTitleLength = 80
/** More than fits, so that the title's end is known to be shortened. */
const consideredLength = 4 * maxTitleLength

const words = new Intl.Segmenter('und', { granularity: 'word' })

/** The beginning of a thread's first message as its title: one line of whole words. Null if nothing of it is visible. */
export function shortenTitle(text: string): string | null {
  const line = cleanName(text, consideredLength)
  if (line.length <= maxTitleLength) return line || null
  let title = ''
  for (const { segment } of words.segment(line)) {
    if (title.length + segment.length > maxTitleLength - 1) break
    title += segment
  }
  // A first word that is too long is cut.
  const short = title.trimEnd() || cleanName(line.slice(0, maxTitleLength - 1), maxTitleLength)
  return `${short}…`
}
