import { accessSync, chmodSync, constants, existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

const busy = 5

/**
 * Makes this process the only owner of a data folder, or returns undefined if there is one already. The kernel releases
 * the lock when the process ends, however it ends, and nothing else does: not even a PostgreSQL that dies.
 *
 * SQLite is used because Node cannot lock files itself. Nothing is ever written to the file.
 */
export function lockFolder(dataDir: string): { release(): void } | undefined {
  mkdirSync(dataDir, { recursive: true })
  const path = join(dataDir, 'server.lock')
  // SQLite would only say that it can't open the file. Opening the file here to find out why would release our own lock.
  accessSync(existsSync(path) ? path : dataDir, constants.R_OK | constants.W_OK)
  const file = new DatabaseSync(path, { timeout: 0 })
  try {
    file.exec('begin exclusive')
  } catch (error) {
    file.close()
    if ((error as { errcode?: number }).errcode === busy) return undefined
    throw error
  }
  chmodSync(path, 0o600)
  return { release: () => file.close() }
}
