/** Where an event of OpenAI's or Anthropic's format begins to add text, in the middle of its JSON. */
const opening = /"delta": ?\{(?:"\w+": ?(?:"\w*"|null), ?)*"(?:content|text)": ?"/
/** The rest of a JSON string. */
const characters = /(?:[^"\\]|\\.)*/y
/** Random characters that OpenAI adds to hide the length of the text on the network. */
const padding = /, ?"obfuscation": ?"\w*"/

/**
 * Joins neighboring events that only differ in the text that they add. Gets whole lines of an event stream, and returns
 * lines that mean the same.
 */
export function joinEvents(lines: string): string {
  const events = lines.split('\n\n')
  const joined: string[] = []
  let last: TextEvent | undefined
  for (const event of events) {
    const next = readText(event)
    if (last && next && next.before === last.before && next.after === last.after) {
      last.text += next.text
    } else {
      if (last) joined.push(last.before + last.text + last.after)
      if (!next) joined.push(event)
      last = next
    }
  }
  if (last) joined.push(last.before + last.text + last.after)
  return joined.join('\n\n')
}

interface TextEvent {
  before: string
  /** With JSON's escapes. */
  text: string
  after: string
}

function readText(event: string): TextEvent | undefined {
  const found = opening.exec(event)
  if (!found) return undefined
  const start = found.index + found[0].length
  characters.lastIndex = start
  characters.test(event)
  const end = characters.lastIndex
  return { before: event.slice(0, start), text: event.slice(start, end), after: event.slice(end).replace(padding, '') }
}
