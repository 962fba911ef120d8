import { createRequire } from 'node:module'
import { type BuildOptions, build } from 'esbuild'
import type { Miniflare, MiniflareOptions } from 'miniflare'

/** The reason why Workers can't run here, if any: their runtime isn't available for every platform. */
export const noWorkers = findProblem()

function findProblem(): string | undefined {
  const requireAsMiniflare = createRequire(import.meta.resolve('miniflare'))
  // A missing package is a mistake in the setup, so this throws.
  requireAsMiniflare.resolve('workerd')
  try {
    // Loading the package only checks that its binary exists.
    requireAsMiniflare('workerd')
    return undefined
  } catch (error) {
    return (error as Error).message.trim().split('\n')[0]
  }
}

/** Starts a Worker in the Cloudflare Workers runtime, on a free port. */
export async function startWorker(
  source: Pick<BuildOptions, 'entryPoints' | 'stdin'>,
  options: Omit<MiniflareOptions, 'modules' | 'script' | 'workers'>,
): Promise<Miniflare> {
  const { Miniflare } = await import('miniflare')
  const { outputFiles = [] } = await build({
    ...source,
    bundle: true,
    format: 'esm',
    conditions: ['workerd'],
    external: ['cloudflare:*'],
    write: false,
  })
  const script = outputFiles[0]?.text ?? ''
  return new Miniflare({ modules: true, script, compatibilityDate: '2026-07-01', ...options })
}
