import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

/**
 * Builds what browsers load if its sources have changed, and finds a browser, because `npm test` isn't the only way to run
 * a test.
 */
export default function setup(): void {
  const program = join(import.meta.dirname, '../../../scripts/setup.mjs')
  const { status } = spawnSync(process.execPath, [program, '--tests'], { stdio: 'inherit' })
  if (status !== 0) throw new Error('The browser tests could not be prepared')
}
