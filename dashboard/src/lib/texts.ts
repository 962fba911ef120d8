export const languages = { en: 'English', de: 'Deutsch' } as const
export type Language = keyof typeof languages

const storageKey = 'inlay-language'

function chooseLanguage(): Language {
  const wanted = [localStorage.getItem(storageKey), ...navigator.languages].map((name) => name?.slice(0, 2))
  return wanted.find((name): name is Language => name !== undefined && name in languages) ?? 'en'
}

export const language: Language = chooseLanguage()
document.documentElement.lang = language

/** Texts are chosen when the page loads, so a change of language loads it again. */
export function setLanguage(next: Language): void {
  localStorage.setItem(storageKey, next)
  location.reload()
}

/** The texts of one part of the dashboard, in the user's language. Both languages must have the same entries. */
export const texts = <Texts>(catalogue: { en: Texts; de: NoInfer<Texts> }): Texts => catalogue[language]
