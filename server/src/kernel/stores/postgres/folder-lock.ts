import { accessSync, chmodSync, constants, existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

const busy = 5

/**
 * Makes this process the only owner of a data folder, or returns undefined if the folder already has one. The kernel
 * releases the lock when the process ends, however it ends. If only PostgreSQL ends, the lock stays.
 *
 * Uses SQLite because Node can't lock files itself. Nothing is ever written to the file.
 */
export function lockFolder(dataDir: string): { release(): void } | undefined {
  mkdirSync(dataDir, { recursive: true })
  const path = join(dataDir, 'server.lock')
  // Reports why a file can't be opened, which SQLite doesn't. Opening it here instead would release a lock we hold.
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
