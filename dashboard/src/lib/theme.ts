export const themes = ['system', 'light', 'dark'] as const
export type Theme = (typeof themes)[number]

const storageKey = 'inlay-theme'

export const readTheme = (): Theme => themes.find((theme) => theme === localStorage.getItem(storageKey)) ?? 'system'

export function setTheme(theme: Theme): void {
  localStorage.setItem(storageKey, theme)
  applyTheme()
}

export function applyTheme(): void {
  const theme = readTheme()
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}
