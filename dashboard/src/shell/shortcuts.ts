import { useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import { allPages } from '../pages/pages.ts'
import { useOrgPath } from '../session/me.ts'
import { t } from './texts.ts'

const isMac = /mac|iphone|ipad/i.test(navigator.platform)
export const paletteKeys: string[] = [isMac ? '⌘' : 'Ctrl', 'K']

/** Every shortcut, for the sheet that lists them. */
export const shortcuts: { keys: string[]; name: string }[] = [
  { keys: paletteKeys, name: t.openPalette },
  { keys: ['?'], name: t.showShortcuts },
  { keys: ['↑', '↓'], name: t.moveInTable },
  { keys: ['Enter'], name: t.openRow },
  { keys: ['Space'], name: t.selectRow },
  ...allPages.flatMap(({ letter, name }) =>
    letter ? [{ keys: ['G', letter.toUpperCase()], name: t.goTo(name) }] : [],
  ),
]

/** Also inside of shadow roots, whose events seem to come from their host. */
function isTyping(event: KeyboardEvent): boolean {
  const [target] = event.composedPath()
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}

/** Within this time, a letter after `g` counts. */
const sequenceMs = 1_500

/** Listens to the keys of the registry, except while the user types. */
export function useShortcuts(openPalette: () => void, openSheet: () => void): void {
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  useEffect(() => {
    let goUntil = 0
    function press(event: KeyboardEvent) {
      const { key, metaKey, ctrlKey, altKey } = event
      if (key.toLowerCase() === 'k' && (isMac ? metaKey && !ctrlKey : ctrlKey && !metaKey) && !altKey) {
        event.preventDefault()
        return openPalette()
      }
      if (metaKey || ctrlKey || altKey || isTyping(event)) return
      if (key === '?') return openSheet()
      const page = event.timeStamp < goUntil && allPages.find(({ letter }) => letter === key)
      goUntil = key === 'g' ? event.timeStamp + sequenceMs : 0
      if (page) {
        event.preventDefault()
        void navigate({ to: orgPath(page.path) })
      }
    }
    window.addEventListener('keydown', press)
    return () => window.removeEventListener('keydown', press)
  })
}
