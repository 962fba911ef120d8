import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startProcess } from '../kills.ts'
import { makeRunFolder } from './engines.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Data folder of a development server that was started once and stopped, for tests to copy. */
    usedDataFolder: string
  }
}

const program = join(import.meta.dirname, '../../bin/inlay.mjs')

/** Creates a data folder once, because a first start takes several times as long as a later one. */
export default async function setup(project: TestProject): Promise<() => void> {
  const folder = makeRunFolder('installation')
  const dataDir = join(folder.path, 'data')
  const env = { PATH: process.env.PATH ?? '', PORT: '0', INLAY_DRAIN_SECONDS: '0', INLAY_DATA_DIR: dataDir }
  const { child, output } = await startProcess((command) =>
    spawn(process.execPath, [program, command], { env, stdio: ['ignore', 'pipe', 'inherit'] }),
  )
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const [code] = await exited
  if (code !== 0) throw new Error(`The server exited with ${code}: ${output()}`)
  project.provide('usedDataFolder', dataDir)
  return folder.remove
}
