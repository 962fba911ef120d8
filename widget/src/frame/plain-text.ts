import { visibleText } from '../markdown/visible-text.ts'

/** Text from pages and assistants, without characters that could disguise it, and not longer than it should be. */
export function plainText(text: string, length = 500): string {
  const visible = visibleText(text)
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
