/** Where an event of OpenAI's or Anthropic's format begins to add text, in the middle of its JSON. */
const opening = /"delta": ?\{(?:"\w+": ?(?:"\w*"|null), ?)*"(?:content|text)": ?"/
/** The rest of a JSON string. */
const characters = /(?:[^"\\]|\\.)*/y
/** Random characters that OpenAI adds to hide the length of the text on the network. */
const padding = /, ?"obfuscation": ?"\w*"/

/** An event that adds text. Any other event is a string. */
export interface TextEvent {
  before: string
  /** With JSON's escapes. */
  text: string
  after: string
}

/** Reads whole lines of an event stream. Neighboring events that only differ in the text that they add become one. */
export function joinEvents(lines: string): (TextEvent | string)[] {
  const joined: (TextEvent | string)[] = []
  for (const event of lines.split('\n\n')) {
    const last = joined.at(-1)
    const next = readText(event)
    if (next && isAlike(next, last)) last.text += next.text
    else joined.push(next ?? event)
  }
  return joined
}

/** The opposite of `joinEvents`: lines that mean the same as those that it read. */
export const writeEvents = (events: readonly (TextEvent | string)[]): string =>
  events.map((event) => (typeof event === 'string' ? event : event.before + event.text + event.after)).join('\n\n')

/** Whether two events only differ in the text that they add. */
export const isAlike = (one: TextEvent, other: TextEvent | string | undefined): other is TextEvent =>
  typeof other === 'object' && one.before === other.before && one.after === other.after

function readText(event: string): TextEvent | undefined {
  const found = opening.exec(event)
  if (!found) return undefined
  const start = found.index + found[0].length
  characters.lastIndex = start
  characters.test(event)
  const end = characters.lastIndex
  return { before: event.slice(0, start), text: event.slice(start, end), after: event.slice(end).replace(padding, '') }
}
