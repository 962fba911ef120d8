/**
 * The rules for every display name: organizations, keys, users, skills, connectors, directories, registered clients.
 * Two different names must look different, and a name must not change how the text around it looks. So a name has no
 * control, bidirectional or invisible characters, and its only white space is single spaces between words.
 */

/** Characters that are invisible, change their neighbors, or have no agreed meaning. */
const refused =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2800\uFFFC]/u

/**
 * Two uses of invisible characters are legitimate and have a visible effect. An emoji can be a sequence with joiners,
 * selectors or tags; sequences on Unicode's list of emoji are accepted. Some scripts spell words with joiners, which
 * are accepted where they change the shape (RFC 5892, appendix A): both kinds after a virama, and the non-joiner after
 * an Arabic letter that would otherwise join the next one. Compiled when needed, because the list is long.
 */
function findAccepted(): RegExp {
  const virama = '[\\u094D\\u09CD\\u0A4D\\u0ACD\\u0B4D\\u0BCD\\u0C4D\\u0CCD\\u0D4D\\u0DCA]'
  const arabicThatJoins =
    '[\\u0620\\u0626\\u0628\\u062A-\\u062E\\u0633-\\u063F\\u0641-\\u0647\\u0649\\u064A\\u066E\\u066F\\u0678-\\u0687\\u069A-\\u06BF\\u06C1\\u06C2\\u06CC\\u06CE\\u06D0\\u06D1\\u06FA-\\u06FC\\u06FF]'
  const arabic = '[[\\p{Script=Arabic}&&\\p{L}]--[\\u0621]]'
  accepted ??= new RegExp(
    `\\p{RGI_Emoji}|(?<=${virama})[\\u200C\\u200D](?=\\p{L})|(?<=${arabicThatJoins})\\u200C(?=${arabic})`,
    'gv',
  )
  return accepted
}
let accepted: RegExp | undefined

/** Explains to the author why a name is invalid, or returns undefined. Positions count characters from 1. */
export function nameProblem(text: string): string | undefined {
  if (text === '') return 'Must not be empty'
  const checked = withoutAccepted(text)
  const index = checked.findIndex((character, at) => refused.test(character) || isStraySpace(checked, at))
  if (index >= 0) return `Contains ${describe(checked[index] ?? '', checked)} at position ${index + 1}`
  if (/^\p{M}/u.test(text)) return 'Must not begin with a combining mark'
  return undefined
}

/**
 * Explains why a longer text, such as instructions for a model, is invalid, or returns undefined. Line breaks, tabs and
 * spaces are allowed, but nothing that a model would read and its author couldn't see.
 */
export function textProblem(text: string): string | undefined {
  const checked = withoutAccepted(text)
  const index = checked.findIndex((character) => character !== '\n' && character !== '\t' && refused.test(character))
  return index >= 0 ? `Contains ${describe(checked[index] ?? '', checked)} at position ${index + 1}` : undefined
}

/** The text's characters, with each accepted sequence replaced by as many harmless ones, so that positions stay. */
function withoutAccepted(text: string): string[] {
  if (!refused.test(text)) return [...text]
  return [...text.replace(findAccepted(), (sequence) => 'x'.repeat([...sequence].length))]
}

/** Composes letters with their marks, trims, and collapses every run of spaces of any kind to one plain space. */
export const tidyName = (text: string): string =>
  text
    .normalize('NFC')
    .replace(/\p{Zs}+/gu, ' ')
    .replace(/^ | $/g, '')

/** Turns text that can't be rejected, such as a name from an identity provider, into a valid or empty name. */
export function cleanName(text: string, max: number): string {
  const visible = text
    .toWellFormed()
    .slice(0, max * 20)
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
  const short = [...tidyName(strip(visible))].slice(0, max).join('')
  return tidyName(strip(short))
}

function strip(text: string): string {
  const withoutMarks = (name: string) => name.replace(/^[\p{M}\p{Zs}]+/u, '')
  if (!refused.test(text)) return withoutMarks(text)
  let kept = ''
  let end = 0
  const keep = (part: string) => {
    kept += [...part].filter((character) => !refused.test(character)).join('')
  }
  for (const { 0: sequence, index } of text.matchAll(findAccepted())) {
    keep(text.slice(end, index))
    kept += sequence
    end = index + sequence.length
  }
  keep(text.slice(end))
  return withoutMarks(kept)
}

function isStraySpace(text: readonly string[], at: number): boolean {
  const character = text[at] ?? ''
  if (!/\p{Zs}/u.test(character)) return false
  return character !== ' ' || at === 0 || at === text.length - 1 || text[at - 1] === ' '
}

const characterNames: Record<number, string> = {
  0: 'null character',
  9: 'tab',
  10: 'line feed',
  13: 'carriage return',
  160: 'no-break space',
  173: 'soft hyphen',
  8203: 'zero width space',
  8204: 'zero width non-joiner',
  8205: 'zero width joiner',
  8206: 'left-to-right mark',
  8207: 'right-to-left mark',
  8232: 'line separator',
  8233: 'paragraph separator',
  8234: 'left-to-right embedding',
  8235: 'right-to-left embedding',
  8236: 'pop directional formatting',
  8237: 'left-to-right override',
  8238: 'right-to-left override',
  8288: 'word joiner',
  8294: 'left-to-right isolate',
  8295: 'right-to-left isolate',
  8296: 'first strong isolate',
  8297: 'pop directional isolate',
  12644: 'Hangul filler',
  65279: 'byte order mark',
}

function describe(character: string, text: readonly string[]): string {
  if (character === ' ')
    return text[0] === ' ' || text.at(-1) === ' ' ? 'a leading or trailing space' : 'two spaces in a row'
  const code = character.codePointAt(0) ?? 0
  const number = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`
  return `${number} (${characterNames[code] ?? kindOf(character)})`
}

function kindOf(character: string): string {
  if (/\p{Cc}/u.test(character)) return 'control character'
  if (/\p{Cs}/u.test(character)) return 'half of a surrogate pair'
  if (/\p{Co}/u.test(character)) return 'private-use character'
  if (/\p{Noncharacter_Code_Point}/u.test(character)) return 'not a character'
  if (/\p{Zs}/u.test(character)) return 'unusual space'
  return 'invisible character'
}
