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

/** Builds the files that the server serves, in `dist/`. The content security policy allows no inline script or style. */
export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss(), precompress],
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
