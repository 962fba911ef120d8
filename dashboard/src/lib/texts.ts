let translation: Record<string, object | undefined> = {}

/** For modules that are evaluated from now on, because texts are chosen when a module is evaluated. */
export function translateTexts(sections: Record<string, object | undefined>): void {
  translation = sections
}

/** A section of the dashboard's texts in the user's language. What has no translation is in English. */
export const texts = <Texts extends object>(section: string, english: Texts): Texts =>
  translate(english, translation[section])

function translate<Texts extends object>(english: Texts, translated: object = {}): Texts {
  const entries = Object.entries(translated).map(([name, text]) => {
    const original = english[name as keyof Texts]
    return [name, isRecord(original) ? translate(original, text) : text]
  })
  return { ...english, ...Object.fromEntries(entries) }
}

const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
