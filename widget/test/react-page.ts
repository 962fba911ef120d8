import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** A React application's page with the widget, as its bundler builds it. */
export async function bundleReactPage(props: { publishableKey: string; apiBase: string }): Promise<string> {
  const { outputFiles } = await build({
    stdin: {
      contents: `
        import { createElement, createRef, StrictMode } from 'react'
        import { createRoot } from 'react-dom/client'
        import { InlayAgent } from './src/react.ts'
        const root = createRoot(document.querySelector('main'))
        const props = ${JSON.stringify(props)}
        window.initialized = []
        window.reference = createRef()
        const onInitialized = (detail) => window.initialized.push(detail)
        window.show = (more) =>
          root.render(createElement(StrictMode, null, more && createElement(InlayAgent, { ...props, ref: window.reference, displayMode: 'inline', onInitialized, ...more })))
        window.show({})`,
      resolveDir: fileURLToPath(new URL('..', import.meta.url)),
    },
    bundle: true,
    minify: true,
    write: false,
    define: { 'process.env.NODE_ENV': '"development"' },
  })
  const script = outputFiles[0]?.text.replaceAll('</script', '<\\/script')
  return `<!doctype html><html lang="en"><title>React</title><main></main><script>${script}</script></html>`
}
