import type { Look } from '../channel.ts'
import { plainText } from '../frame/plain-text.ts'

/** The browser accepts anything in a value that still has to be substituted, also images where a color belongs. */
const isFinal = (value: string) => !/\\|(?:\b(?:var|env|attr|if|inherit)|--[\w-]*)\(/i.test(value)
const longestValue = 1_000
const isValid = (property: string) => (value: string) =>
  value.length <= longestValue && isFinal(value) && CSS.supports(property, value)
const isColor = isValid('color')
const isFont = isValid('font-family')

/** Styles that a page may set, with their validation. */
const properties: Record<string, (value: string) => boolean> = {
  accent: isColor,
  'on-accent': isColor,
  background: isColor,
  text: isColor,
  muted: isColor,
  line: isColor,
  radius: isValid('border-radius'),
  font: isFont,
  mono: isFont,
}

/** The page's wishes, as far as they are valid. */
export interface SafeLook {
  canClose: boolean
  isOpen: boolean
  title: string
  greeting: string
  language: string
  strings: Record<string, unknown>
}

/** Nothing that the page says is trusted, not even its type. */
export function checkLook(look: Partial<Record<keyof Look, unknown>>): SafeLook {
  return {
    canClose: look.canClose === true,
    isOpen: look.isOpen === true,
    title: readText(look.title, 100),
    greeting: readText(look.greeting, 1_000),
    language: readText(look.language, 40),
    strings: isObject(look.strings) ? look.strings : {},
  }
}

/** Applies the page's theme and its custom properties to the document. */
export function applyStyles({ theme, styles }: Partial<Record<keyof Look, unknown>>): void {
  const { style } = document.documentElement
  style.colorScheme = theme === 'dark' ? 'dark' : 'light'
  for (const [name, isGood] of Object.entries(properties)) {
    const value = isObject(styles) ? styles[name] : undefined
    if (typeof value === 'string' && isGood(value)) style.setProperty(`--inlay-${name}`, value)
    else style.removeProperty(`--inlay-${name}`)
  }
}

const readText = (value: unknown, length: number) => (typeof value === 'string' ? plainText(value, length) : '')

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
