/**
 * Removes characters that could disguise text from pages and assistants: control characters, invisible characters, and
 * marks that change the text direction.
 */
export function plainText(text: string, length = 500): string {
  const visible = text.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]/gu, '')
  return visible.length > length ? `${visible.slice(0, length)}…` : visible
}

/** Characters that are invisible, look like a plain space, or change how their neighbours are rendered. */
const unseen = /(?![\n ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\uFFFC]/gu

/** Formats a value as JSON in which every character is visible: the others are escaped, so the value stays the same. */
export const exactJson = (value: unknown): string =>
  JSON.stringify(value, null, 2).replace(unseen, (character) =>
    Array.from({ length: character.length }, (_, at) => escapeUnit(character.charCodeAt(at))).join(''),
  )

const escapeUnit = (code: number) => `\\u${code.toString(16).padStart(4, '0')}`
