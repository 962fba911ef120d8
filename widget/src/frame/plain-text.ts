/**
 * What pages and assistants say is shown as they said it, without the characters that could make it look otherwise:
 * controls, and marks that change the direction of the text or cannot be seen.
 */
export function plainText(text: string, length = 500): string {
  const visible = text.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]/gu, '')
  return visible.length > length ? `${visible.slice(0, length)}…` : visible
}
