import { expect, test } from 'vitest'

test('a server that renders pages can load the package, where there is no browser', async () => {
  expect(globalThis.HTMLElement).toBeUndefined()
  expect(await import('./define.ts')).toBeDefined()
  const { InlayAgent } = await import('./react.ts')
  // @ts-expect-error Its types are not installed for one line.
  const { renderToString } = await import('react-dom/server')
  const { createElement } = await import('react')
  const html = renderToString(createElement(InlayAgent, { publishableKey: 'pk_test_x', displayMode: 'inline' }))
  expect(html, 'the key comes later, together with the token').toBe('<inlay-agent display-mode="inline"></inlay-agent>')
})
