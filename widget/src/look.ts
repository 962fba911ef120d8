import type { Look } from './channel.ts'
import type { DisplayMode } from './public-types.ts'

/** Reads from the page how the frame should look. The probe's color is black if the color scheme is dark. */
export function readLook(element: HTMLElement & { displayMode: DisplayMode; open: boolean }, probe: HTMLElement): Look {
  const style = getComputedStyle(element)
  const given = ['accent', 'background', 'text', 'radius', 'font'].flatMap((name) => {
    const value = style.getPropertyValue(`--inlay-${name}`).trim()
    return value ? [[name, value] as const] : []
  })
  return {
    theme: getComputedStyle(probe).color === 'rgb(0, 0, 0)' ? 'dark' : 'light',
    canClose: element.displayMode !== 'inline',
    isOpen: element.open,
    styles: Object.fromEntries(given),
  }
}
