import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'
import type { migrate } from '../src/kernel/stores/postgres/migrations.ts'

const server = join(import.meta.dirname, '..')

/** The names of this release's migrations. */
export const shipped = readdirSync(join(server, 'migrations'))

/** A later release: the code with more migrations. */
export async function makeRelease(migrations: Record<string, string>): Promise<typeof migrate> {
  const folder = mkdtempSync(join(tmpdir(), 'inlay-release-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const part of ['src', 'migrations']) cpSync(join(server, part), join(folder, part), { recursive: true })
  symlinkSync(join(server, '../node_modules'), join(folder, 'node_modules'))
  for (const [name, sql] of Object.entries(migrations)) writeFileSync(join(folder, 'migrations', name), sql)
  return (await import(pathToFileURL(join(folder, 'src/kernel/stores/postgres/migrations.ts')).href)).migrate
}
