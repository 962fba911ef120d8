import { createRef } from 'react'
// @ts-expect-error Its types aren't installed, because only one line uses them.
import { renderToString } from 'react-dom/server'
import { expect, expectTypeOf, test } from 'vitest'
import type { InlayAgent as InlayAgentElement, InlayEvents } from './inlay-agent.ts'
import { InlayAgent } from './react.ts'

test('the component accepts a style, an open state and a ref to the element', () => {
  const element = createRef<InlayAgentElement>()
  const html = renderToString(
    <InlayAgent
      publishableKey="pk_test_x"
      displayMode="pip"
      open
      className="helper"
      style={{ margin: 4 }}
      ref={element}
      onClose={() => undefined}
    />,
  )
  expect(html).toBe('<inlay-agent class="helper" style="margin:4px" display-mode="pip"></inlay-agent>')
  // @ts-expect-error This mode doesn't exist.
  expect(<InlayAgent publishableKey="pk_test_x" displayMode="popup" />).toBeDefined()
  // @ts-expect-error The ref is to the widget's element.
  expect(<InlayAgent publishableKey="pk_test_x" ref={createRef<HTMLInputElement>()} />).toBeDefined()
})

test('JSX has types for the element, its attributes and its events', () => {
  const element = createRef<InlayAgentElement>()
  const html = renderToString(
    <inlay-agent
      publishable-key="pk_test_x"
      display-mode="fullscreen"
      api-base="https://inlay.example.com"
      style={{ margin: 4 }}
      ref={element}
      oninlay-error={(event) => expectTypeOf(event).toEqualTypeOf<InlayEvents['inlay-error']>()}
    />,
  )
  expect(html).toContain('publishable-key="pk_test_x" display-mode="fullscreen"')
  // @ts-expect-error This mode doesn't exist.
  expect(<inlay-agent display-mode="popup" />).toBeDefined()
  // @ts-expect-error This attribute doesn't exist.
  expect(<inlay-agent publishableKey="pk_test_x" />).toBeDefined()
})
