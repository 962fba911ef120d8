import { hash, randomUUID } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type BuildOptions, build, type Plugin, transform } from 'esbuild'
import { elementStyle } from './src/element-style.ts'
import { viewTranslations } from './src/languages/languages.ts'
import { english } from './src/view/strings.ts'

const here = fileURLToPath(new URL('.', import.meta.url))
const dist = join(here, 'dist')

const minifyStyle = async (css: string) => (await transform(css, { loader: 'css', minify: true })).code.trim()

/** Minifies style sheets that are bundled as text: CSS files, and the element's, which is a string in TypeScript. */
const styleTexts: Plugin = {
  name: 'style-texts',
  setup({ onLoad }) {
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      return { contents: await minifyStyle(await readFile(path, 'utf8')), loader: 'text' }
    })
    onLoad({ filter: /element-style\.ts$/ }, async () => {
      return { contents: `export const elementStyle = ${JSON.stringify(await minifyStyle(elementStyle))}` }
    })
  },
}

/**
 * Keeps marked's lexer, and leaves out its HTML renderer, which is most of it. The package creates an instance when it's
 * loaded, so bundlers can't leave out the rest themselves.
 */
const lexerOnly: Plugin = {
  name: 'lexer-only',
  setup({ onLoad }) {
    onLoad({ filter: /marked\.esm\.js$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8')
      const classes = text.slice(0, text.search(/;var \w+=new \w+;function /))
      const names = ['Lexer', 'Tokenizer'].map((name) => text.match(`\\w+ as ${name}\\b`)?.[0])
      return { contents: `${classes};export{${names}}` }
    })
  },
}

/** One file without imports, minified. */
async function bundle(entry: string, options: BuildOptions): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    target: 'es2023',
    legalComments: 'none',
    plugins: [styleTexts, lexerOnly],
    ...options,
  })
  return outputFiles?.[0]?.text ?? ''
}

/** Builds the files that the server serves, in `dist/`. `npm pack` makes the package for bundlers. */
export async function buildWidget(): Promise<void> {
  // With the English texts that a language lacks, so that the view doesn't have to look for them.
  const languages = Object.entries(viewTranslations).map(([language, translation]) => ({
    language,
    name: `texts-${language}`,
    code: `export const texts=${JSON.stringify({ ...english, ...translation })}\n`,
  }))
  const textAddresses = Object.fromEntries(
    languages.map(({ language, name, code }) => [language, addressOf(name, code)]),
  )
  const view = await bundle('src/view/part.ts', { format: 'esm', banner: declare({ textAddresses }) })
  const viewAddress = addressOf('view', view)
  const banner = declare({ viewAddress, textAddresses })
  const frame = await bundle('src/frame/main.ts', { format: 'iife', banner })
  const widget = await bundle('src/define.ts', { format: 'iife' })
  const preview = await bundle('src/preview/main.ts', { format: 'iife' })
  await mkdir(dist, { recursive: true })
  // First what the new frame needs.
  await replaceFile('view.js', view)
  for (const { name, code } of languages) await replaceFile(`${name}.js`, code)
  await replaceFile('frame.js', frame)
  await replaceFile('widget.js', widget)
  await replaceFile('preview.js', preview)
}

/** The server computes the same URL (server/src/kernel/http/shared-file.ts). */
const addressOf = (name: string, text: string) => `/embed/${name}-${hash('sha256', text, 'base64url').slice(0, 22)}.js`

/** Not with `define`: the bundler would try to resolve a known address, and add code for doing so. */
const declare = (constants: Record<string, unknown>) => ({
  js: `const ${Object.entries(constants).map(([name, value]) => `${name}=${JSON.stringify(value)}`)};`,
})

/** Replaces the file atomically, because a server may be reading it, and only if its content changed. */
async function replaceFile(name: string, text: string): Promise<void> {
  const path = join(dist, name)
  const known = await readFile(path, 'utf8').catch(() => undefined)
  if (known === text) return
  const next = join(dist, `.${randomUUID()}`)
  await writeFile(next, text)
  await rename(next, path)
}

if (import.meta.main) await buildWidget()
