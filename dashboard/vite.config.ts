import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

/** Compresses scripts and styles, so that the server doesn't have to. */
const precompress: Plugin = {
  name: 'precompress',
  writeBundle({ dir = '' }, bundle) {
    for (const name of Object.keys(bundle).filter((file) => /\.(js|css)$/.test(file))) {
      writeFileSync(join(dir, `${name}.br`), brotliCompressSync(readFileSync(join(dir, name))))
    }
  },
}

/**
 * Lets browsers load the app at once. The entry imports it when it has the texts of the user's language, so Vite doesn't
 * list it in the page.
 */
const preloadApp: Plugin = {
  name: 'preload-app',
  transformIndexHtml(html, { bundle = {}, chunk }) {
    const files = new Set(chunk?.dynamicImports.filter((file) => file.startsWith('assets/app-')))
    // Includes the files that are added on the way.
    for (const file of files) {
      const found = bundle[file]
      for (const imported of found?.type === 'chunk' ? found.imports : []) files.add(imported)
    }
    return [...files]
      .filter((file) => !html.includes(file))
      .map((file) => ({
        tag: 'link',
        attrs: { rel: 'modulepreload', crossorigin: true, href: `/${file}` },
        injectTo: 'head',
      }))
  },
}

/** Builds the files that the server serves, in `dist/`. The content security policy allows no inline script or style. */
export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss(), preloadApp, precompress],
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Swagger UI is one file of this size, which only the API reference loads.
    chunkSizeWarningLimit: 1_600,
    rolldownOptions: {
      input: ['index.html', 'reference.html'].map((name) => `${import.meta.dirname}/${name}`),
      // Compressing takes longest, which isn't worth a warning.
      checks: { bundlerTimings: false, pluginTimings: false },
      // The server's own pages use the fonts too, under a fixed name.
      output: {
        assetFileNames: ({ names }) =>
          names[0]?.endsWith('.woff2') ? 'assets/[name][extname]' : 'assets/[name]-[hash][extname]',
      },
    },
  },
  logLevel: 'warn',
})
