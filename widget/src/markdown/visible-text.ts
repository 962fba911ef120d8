/** Parts of emoji, and joiners between letters of scripts that need them, are invisible characters with a purpose. */
const joinedScripts = 'Arab|Syrc|Mong|Deva|Beng|Guru|Gujr|Orya|Taml|Telu|Knda|Mlym|Sinh|Khmr'
  .split('|')
  .map((script) => `\\p{Script=${script}}`)
  .join('')
const useful = [
  '(?<=\\p{Extended_Pictographic}\\p{Emoji_Modifier}?)[\\uFE0E\\uFE0F]',
  '(?<=[\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\uFE0F])\\u200D(?=\\p{Extended_Pictographic})',
  '(?<=[0-9#*])\\uFE0F(?=\\u20E3)',
  `(?<=[${joinedScripts}])[\\u200C\\u200D](?=[${joinedScripts}])`,
].join('|')
const hidden = '(?![\\n\\t])[\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}\\p{Default_Ignorable_Code_Point}\\u2028\\u2029\\u2800\\uFFFC]'
const unseenInText = new RegExp(`(${useful})|${hidden}`, 'gu')
const unseenInCode = new RegExp(`(${useful})|${hidden}|(?! )\\p{Z}`, 'gu')

/**
 * Removes characters that could disguise text: invisible ones, and those that change the text's direction. Also removes
 * piles of accents, which cover the lines above.
 */
export const visibleText = (text: string): string =>
  text.replace(unseenInText, (_, kept?: string) => kept ?? '').replace(/(\p{M}{5})\p{M}+/gu, '$1')

/** Shows such characters as escapes, because in code they matter. Spaces other than the usual one are among them. */
export const visibleCode = (code: string): string =>
  code.replace(unseenInCode, (character, kept?: string) => kept ?? `\\u{${character.codePointAt(0)?.toString(16)}}`)

const named: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00A0' }
const others =
  'copy© reg® trade™ hellip… mdash— ndash– lsquo‘ rsquo’ ldquo“ rdquo” laquo« raquo» bull• middot· times× divide÷ minus− plusmn± deg° euro€ pound£ yen¥ cent¢ sect§ para¶ rarr→ larr← uarr↑ darr↓ harr↔ le≤ ge≥ ne≠ asymp≈ infin∞ microµ frac12½ frac14¼ sup2² sup3³ auml\u00E4 ouml\u00F6 uuml\u00FC Auml\u00C4 Ouml\u00D6 Uuml\u00DC szlig\u00DF'
for (const entry of others.split(' ')) named[entry.slice(0, -1)] = entry.slice(-1)

/** Decodes character references once. Rare names stay as they are. */
export const decodeReferences = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]+\d*));/gi, (reference, decimal, hex, name) => {
    if (name) return Object.hasOwn(named, name) ? (named[name] ?? reference) : reference
    const code = decimal ? Number(decimal) : Number.parseInt(hex, 16)
    return code === 0 || code > 0x10ffff ? '\uFFFD' : String.fromCodePoint(code)
  })
