/**
 * Text of pages and assistants without the characters that could make it look like something else: controls, and marks
 * that change the direction of the text or are invisible.
 */
export function plainText(text: string, length = 500): string {
  const visible = text.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]/gu, '')
  return visible.length > length ? `${visible.slice(0, length)}…` : visible
}

/** Everything that shows nothing, looks like a plain space, or changes how its neighbours are shown. */
const unseen = /(?![\n ])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\uFFFC]/gu

/** A value as JSON in which every character is visible: the others are escapes, so the text still means the same value. */
export const exactJson = (value: unknown): string =>
  JSON.stringify(value, null, 2).replace(unseen, (character) =>
    Array.from({ length: character.length }, (_, at) => escapeUnit(character.charCodeAt(at))).join(''),
  )

const escapeUnit = (code: number) => `\\u${code.toString(16).padStart(4, '0')}`
