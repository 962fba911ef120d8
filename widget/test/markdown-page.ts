import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** A page with the policy of the frame, whose function `show` renders Markdown. */
export async function bundleMarkdownPage(): Promise<string> {
  const { outputFiles } = await build({
    stdin: {
      contents: `
        import { h, render } from 'preact'
        import css from './src/markdown/markdown.css'
        import { Markdown } from './src/markdown/markdown.ts'
        const sheet = new CSSStyleSheet()
        sheet.replaceSync(\`:root { color-scheme: light dark; background: var(--surface); color: var(--text); font: 14px/20px sans-serif;
          --text: light-dark(#1a1c1a, #ecefec); --muted: light-dark(#626660, #a0a6a1); --line: light-dark(#e5e4df, #2a2d2b);
          --surface: light-dark(#fff, #181a19); --sunken: light-dark(#f3f3ef, #0c0d0c); --accent: light-dark(#0b6b5c, #3fc7ae); --mono: monospace }\`)
        const own = new CSSStyleSheet()
        own.replaceSync(css)
        document.adoptedStyleSheets = [sheet, own]
        const strings = { code: 'Code', copy: 'Copy', copied: 'Copied', selected: 'Press Ctrl+C', table: 'Table', done: 'Done', notDone: 'Not done' }
        window.show = (text, isStreaming = false) =>
          render(h(Markdown, { text, isStreaming, strings }), document.querySelector('main'))`,
      resolveDir: fileURLToPath(new URL('..', import.meta.url)),
    },
    bundle: true,
    minify: true,
    write: false,
    loader: { '.css': 'text' },
  })
  const script = outputFiles[0]?.text.replaceAll('</script', '<\\/script')
  const policy = "default-src 'none'; script-src 'nonce-ours'; require-trusted-types-for 'script'; trusted-types 'none'"
  return `<!doctype html><html lang="en"><meta http-equiv="content-security-policy" content="${policy}"><title>Markdown</title>
    <main></main><script nonce="ours">${script}</script></html>`
}
