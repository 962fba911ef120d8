let translation: Record<string, object | undefined> = {}

/** For modules that are evaluated from now on, because texts are chosen when a module is evaluated. */
export function translateTexts(sections: Record<string, object | undefined>): void {
  translation = sections
}

/** A section of the dashboard's texts in the user's language. Entries without a translation are in English. */
export const texts = <Texts>(section: string, english: Texts): Texts => ({ ...english, ...translation[section] })
