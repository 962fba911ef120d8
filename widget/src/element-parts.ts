import { elementStyle } from './element-style.ts'

/** Sandbox permissions. The frame can't navigate the page. */
const frameRights = [
  'allow-scripts',
  'allow-same-origin',
  'allow-forms',
  'allow-popups',
  'allow-popups-to-escape-sandbox',
]

/** The diamonds of Inlay's mark; the launcher is the square around them. */
const mark = 'M12 4 20 12 12 20 4 12ZM12 8 16 12 12 16 8 12Z'
const chevron = 'm6 9 6 6 6-6'

/**
 * Fills the element's shadow tree. Avoids style elements and HTML strings, because the page's content security policy
 * may forbid both.
 */
export function createParts(root: ShadowRoot) {
  const style = new CSSStyleSheet()
  style.replaceSync(elementStyle)
  root.adoptedStyleSheets = [style]
  // Its color follows the page's color scheme; the end of its transition is the only event for a change.
  const probe = make('span', { className: 'probe' })
  const note = make('p', { className: 'note', role: 'status' })
  // The server needs the page's origin, regardless of the page's own referrer policy.
  const frame = make('iframe', { referrerPolicy: 'origin' })
  frame.sandbox.add(...frameRights)
  const panel = make('section', { className: 'panel', id: 'panel' }, note)
  const badge = make('b', { className: 'badge' })
  const launcher = make(
    'button',
    { className: 'launcher', type: 'button' },
    makeIcon('mark', mark),
    makeIcon('chevron', chevron),
    badge,
  )
  launcher.setAttribute('aria-controls', panel.id)
  const agent = make('div', {}, probe, panel, launcher)
  root.append(agent)
  return { agent, probe, note, frame, panel, badge, launcher }
}

function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Partial<HTMLElementTagNameMap[Tag]>,
  ...children: Element[]
): HTMLElementTagNameMap[Tag] {
  const element = Object.assign(document.createElement(tag), properties)
  element.append(...children)
  return element
}

function makeIcon(name: string, shape: string): SVGElement {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path')
  svg.setAttribute('class', name)
  svg.setAttribute('viewBox', '0 0 24 24')
  svg.setAttribute('aria-hidden', 'true')
  path.setAttribute('d', shape)
  svg.append(path)
  return svg
}
