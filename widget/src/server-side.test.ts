import { expect, test } from 'vitest'

test('the package can be imported on a server for server-side rendering', async () => {
  expect(globalThis.HTMLElement).toBeUndefined()
  expect(await import('./define.ts')).toBeDefined()
  const { InlayAgent } = await import('./react.ts')
  const { renderToString } = await import('react-dom/server')
  const { createElement } = await import('react')
  const html = renderToString(createElement(InlayAgent, { publishableKey: 'pk_test_x', displayMode: 'inline' }))
  expect(html, 'the key is set later, together with the token').toBe(
    '<inlay-agent display-mode="inline"></inlay-agent>',
  )
})
