import { createRef } from 'react'
// @ts-expect-error Its types are not installed for one line.
import { renderToString } from 'react-dom/server'
import { expect, expectTypeOf, test } from 'vitest'
import type { InlayAgent as InlayAgentElement, InlayEvents } from './inlay-agent.ts'
import { InlayAgent } from './react.ts'

test('the component takes a style, an open state and a reference to the element', () => {
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
  // @ts-expect-error There is no such mode.
  expect(<InlayAgent publishableKey="pk_test_x" displayMode="popup" />).toBeDefined()
  // @ts-expect-error The reference is to the widget's element.
  expect(<InlayAgent publishableKey="pk_test_x" ref={createRef<HTMLInputElement>()} />).toBeDefined()
})

test('JSX knows the element, its attributes and its events', () => {
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
  // @ts-expect-error There is no such mode.
  expect(<inlay-agent display-mode="popup" />).toBeDefined()
  // @ts-expect-error There is no such attribute.
  expect(<inlay-agent publishableKey="pk_test_x" />).toBeDefined()
})
