import { elementStyle } from './element-style.ts'

/** Sandbox permissions. The frame can't navigate the page. */
const frameRights = [
  'allow-scripts',
  'allow-same-origin',
  'allow-forms',
  'allow-popups',
  'allow-popups-to-escape-sandbox',
]

const icon = 'M12 3l1.9 5.1L19 10l-5.1 1.9L12 17l-1.9-5.1L5 10l5.1-1.9zM19 16v4M17 18h4'

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
  const note = make('p', { className: 'note', role: 'status', textContent: "The assistant isn't connected yet." })
  // The server needs the page's origin, regardless of the page's own referrer policy.
  const frame = make('iframe', { title: 'Agent', referrerPolicy: 'origin' })
  frame.sandbox.add(...frameRights)
  const panel = make('section', { className: 'panel', id: 'panel', ariaLabel: 'Agent' }, note)
  const badge = make('b', { className: 'badge' })
  const launcher = make('button', { className: 'launcher', type: 'button' }, makeIcon(), badge)
  launcher.setAttribute('aria-controls', panel.id)
  const agent = make('div', { className: 'agent is-noted' }, probe, panel, launcher)
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

function makeIcon(): SVGElement {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path')
  svg.setAttribute('viewBox', '0 0 24 24')
  svg.setAttribute('aria-hidden', 'true')
  path.setAttribute('d', icon)
  svg.append(path)
  return svg
}
