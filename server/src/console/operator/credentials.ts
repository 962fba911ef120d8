import { closeSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { personalFolder } from '../../kernel/config/config.ts'

/** Stored by a sign-in on the command line, per server. */
export interface Credentials {
  client_id: string
  access_token: string
  refresh_token?: string | undefined
  /** When the access token expires, as an ISO timestamp. */
  expires_at: string
}

type CredentialsByUrl = Record<string, Credentials>

export const credentialsFile = (): string => join(personalFolder(), 'inlay/credentials.json')

export function readCredentials(): CredentialsByUrl {
  try {
    return JSON.parse(readFileSync(credentialsFile(), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw error
  }
}

/** Without credentials, the server's entry is deleted. */
export function saveCredentials(url: string, credentials: Credentials | undefined): void {
  const { [url]: _, ...others } = readCredentials()
  const all: CredentialsByUrl = credentials ? { ...others, [url]: credentials } : others
  const file = credentialsFile()
  makeFolder(file)
  // Replaced atomically, so that readers never see a partial file and the old file's permissions don't apply.
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(all, null, 2)}\n`, { mode: 0o600 })
  renameSync(draft, file)
}

const makeFolder = (file: string) => mkdirSync(dirname(file), { recursive: true, mode: 0o700 })

/** A lock older than this was left by a process that died. */
const lockMs = 30_000

/** Runs one command at a time, because a refresh token that is used twice ends the sign-in. */
export async function whileLocked<T>(work: () => Promise<T>): Promise<T> {
  const lock = `${credentialsFile()}.lock`
  makeFolder(lock)
  while (!tryToCreate(lock)) {
    if (Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()) > lockMs)
      rmSync(lock, { force: true })
    else await delay(50)
  }
  try {
    return await work()
  } finally {
    rmSync(lock, { force: true })
  }
}

function tryToCreate(file: string): boolean {
  try {
    closeSync(openSync(file, 'wx', 0o600))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}
