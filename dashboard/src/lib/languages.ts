/** Each in its own name. The texts of a language other than English are in a file in `languages`. */
export const languages = { en: 'English', de: 'Deutsch' } as const
export type Language = keyof typeof languages

/** The first of the wanted languages that the dashboard has. A tag such as `de-AT` is German. */
export function chooseLanguage(wanted: readonly (string | null)[]): Language {
  const names = wanted.map((tag) => tag?.split('-')[0])
  return names.find((name): name is Language => name !== undefined && Object.hasOwn(languages, name)) ?? 'en'
}
