import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { personalFolder } from '../config.ts'

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
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  // A new file takes the place of the old one: never half of it, and never with the rights that the old one had.
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(all, null, 2)}\n`, { mode: 0o600 })
  renameSync(draft, file)
}
