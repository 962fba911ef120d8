import * as de from './de.ts'

// A language has a line in each list. The lists are separate, so that a bundle only has the texts it shows.
export const elementTranslations: Record<string, typeof de.element> = { de: de.element }
export const previewTranslations: Record<string, typeof de.preview> = { de: de.preview }
/** Each is a file of its own, which the frame loads. */
export const viewTranslations: Record<string, typeof de.view> = { de: de.view }
