/** @jsxImportSource react */
import { createRef } from 'react'
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

test('the component passes on all attributes, and offers the methods and events of the chat', () => {
  const element = createRef<InlayAgentElement>()
  const html = renderToString(
    <InlayAgent
      publishableKey="pk_test_x"
      position="bottom-start"
      agentTitle="Ask Pen"
      greeting="Hello!"
      language="de"
      strings={{ openAgent: 'Frag uns' }}
      ref={element}
      onMessage={(detail) => expectTypeOf(detail).toEqualTypeOf<InlayEvents['inlay-message']['detail']>()}
      onToolCall={(detail) => expectTypeOf(detail).toEqualTypeOf<InlayEvents['inlay-tool-call']['detail']>()}
    />,
  )
  expect(html).toBe(
    '<inlay-agent position="bottom-start" agent-title="Ask Pen" greeting="Hello!" language="de"></inlay-agent>',
  )
  expectTypeOf(element.current)
    .exclude(null)
    .toExtend<{ open(): void; close(): void; send(text: string): void; newThread(): void; isOpen: boolean }>()
  // @ts-expect-error This position doesn't exist.
  expect(<InlayAgent publishableKey="pk_test_x" position="top-left" />).toBeDefined()
})

test('JSX has types for the element, its attributes and its events', () => {
  const element = createRef<InlayAgentElement>()
  const html = renderToString(
    <inlay-agent
      publishable-key="pk_test_x"
      display-mode="fullscreen"
      api-base="https://inlay.example.com"
      agent-title="Ask Pen"
      greeting="Hello!"
      position="bottom-left"
      language="de"
      open
      style={{ margin: 4 }}
      ref={element}
      oninlay-message={(event) => expectTypeOf(event).toEqualTypeOf<InlayEvents['inlay-message']>()}
      oninlay-tool-call={(event) => expectTypeOf(event).toEqualTypeOf<InlayEvents['inlay-tool-call']>()}
      oninlay-error={(event) => expectTypeOf(event).toEqualTypeOf<InlayEvents['inlay-error']>()}
    />,
  )
  expect(html).toContain('publishable-key="pk_test_x" display-mode="fullscreen"')
  // @ts-expect-error This mode doesn't exist.
  expect(<inlay-agent display-mode="popup" />).toBeDefined()
  // @ts-expect-error This position doesn't exist.
  expect(<inlay-agent position="top-left" />).toBeDefined()
  // @ts-expect-error This attribute doesn't exist.
  expect(<inlay-agent publishableKey="pk_test_x" />).toBeDefined()
})
