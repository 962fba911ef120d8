import { closeSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { personalFolder } from '../config/config.ts'

/** What a sign-in from the command line leaves behind, for one server. */
export interface Credentials {
  client_id: string
  access_token: string
  refresh_token?: string | undefined
  /** When the access token ends, as ISO timestamp. */
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

/** Without credentials the server is forgotten. */
export function saveCredentials(url: string, credentials: Credentials | undefined): void {
  const { [url]: _, ...others } = readCredentials()
  const all: CredentialsByUrl = credentials ? { ...others, [url]: credentials } : others
  const file = credentialsFile()
  makeFolder(file)
  // A new file takes the place of the old one: never half of it, and never with the rights that the old one had.
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(all, null, 2)}\n`, { mode: 0o600 })
  renameSync(draft, file)
}

const makeFolder = (file: string) => mkdirSync(dirname(file), { recursive: true, mode: 0o700 })

/** Whoever died with it has had this long. */
const lockMs = 30_000

/** For one command at a time: a refresh token that two of them use ends the whole sign-in. */
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
