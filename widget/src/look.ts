import type { Look } from './channel.ts'
import { type ElementStrings, english } from './element-strings.ts'
import { elementTranslations } from './languages/languages.ts'
import type { DisplayMode, HostContext } from './public-types.ts'

/** Custom properties that reach the frame, which checks their values. */
const properties = ['accent', 'on-accent', 'background', 'text', 'muted', 'line', 'radius', 'font', 'mono']

/** Reads from the page how the frame should look. The probe's color is black if the color scheme is dark. */
export function readLook(
  element: HTMLElement & { displayMode: DisplayMode; isOpen: boolean },
  probe: HTMLElement,
  { strings = {} }: HostContext,
): Look {
  const style = getComputedStyle(element)
  const given = properties.flatMap((name) => {
    const value = style.getPropertyValue(`--inlay-${name}`).trim()
    return value ? [[name, value] as const] : []
  })
  const title = element.getAttribute('agent-title')
  const greeting = element.getAttribute('greeting')
  const language = languageOf(element)
  return {
    theme: getComputedStyle(probe).color === 'rgb(0, 0, 0)' ? 'dark' : 'light',
    canClose: element.displayMode !== 'inline',
    isOpen: element.isOpen,
    styles: { font: style.fontFamily, ...Object.fromEntries(given) },
    ...(title && { title }),
    ...(greeting && { greeting }),
    language,
    strings,
    loading: chooseStrings(language, strings).agentConnecting,
  }
}

/** The element's texts. `own` are the page's, which replace those of the language. */
export const chooseStrings = (language: string, own: Record<string, string> = {}): ElementStrings => ({
  ...english,
  ...elementTranslations[language.split('-')[0]?.toLowerCase() ?? ''],
  ...own,
})

/** The nearest language that the page declares; an element in a shadow tree doesn't see those around its host. */
export const languageOf = (element: HTMLElement): string =>
  element.getAttribute('language') || element.closest<HTMLElement>('[lang]')?.lang || document.documentElement.lang
