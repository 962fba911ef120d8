import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type BuildOptions, build } from 'esbuild'

const here = fileURLToPath(new URL('.', import.meta.url))
const dist = join(here, 'dist')
const shared: BuildOptions & { write: false } = {
  absWorkingDir: here,
  outdir: dist,
  bundle: true,
  minify: true,
  write: false,
  target: 'es2023',
  legalComments: 'none',
}

/** What the server gives to browsers, in `dist/`. The package for other people's bundlers is made by `npm pack`. */
export async function buildWidget(): Promise<void> {
  const outputs = await Promise.all([
    build({ ...shared, entryPoints: { widget: 'src/define.ts' }, format: 'iife' }),
    build({ ...shared, entryPoints: { frame: 'src/frame/main.ts' }, format: 'iife' }),
    build({ ...shared, entryPoints: { frame: 'src/frame/frame.css' } }),
  ])
  await mkdir(dist, { recursive: true })
  for (const { path, contents } of outputs.flatMap(({ outputFiles }) => outputFiles)) await replaceFile(path, contents)
}

/** Whole or not at all, since a server may be reading it, and only when it is another one. */
async function replaceFile(path: string, contents: Uint8Array): Promise<void> {
  const known = await readFile(path).catch(() => undefined)
  if (known?.equals(contents)) return
  const next = join(dist, `.${randomUUID()}`)
  await writeFile(next, contents)
  await rename(next, path)
}

if (import.meta.main) await buildWidget()
