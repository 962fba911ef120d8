import { createRequire } from 'node:module'
import { type BuildOptions, build } from 'esbuild'
import type { Miniflare, MiniflareOptions } from 'miniflare'

/** Why there can be no Workers here: their runtime does not exist for every platform. */
export const noWorkers = findProblem()

function findProblem(): string | undefined {
  const requireAsMiniflare = createRequire(import.meta.resolve('miniflare'))
  // What is not installed at all is a mistake.
  requireAsMiniflare.resolve('workerd')
  try {
    // It looks for its binary, and does nothing else.
    requireAsMiniflare('workerd')
    return undefined
  } catch (error) {
    return (error as Error).message.trim().split('\n')[0]
  }
}

/** In the runtime of Cloudflare Workers, on a port of its own. */
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
