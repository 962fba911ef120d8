import { chooseLanguage, type Language } from './languages.ts'

const storageKey = 'inlay-language'

export const language = chooseLanguage([localStorage.getItem(storageKey), ...navigator.languages])
document.documentElement.lang = language

/** Texts are chosen when the page loads, so a change of language loads it again. */
export function setLanguage(next: Language): void {
  localStorage.setItem(storageKey, next)
  location.reload()
}
