#!/usr/bin/env node
// Runs the command on the pinned Node, whatever Node the machine has, and remembers compiled code between runs.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import module from 'node:module'
import { fileURLToPath } from 'node:url'

const required = 26
if (Number(process.versions.node.split('.')[0]) < required) {
  const pinned = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url))
  if (!existsSync(pinned) || process.execPath === pinned) {
    console.error(`Inlay needs Node ${required}, this is ${process.version}. Run: node scripts/setup.mjs`)
    process.exit(1)
  }
  const { status, signal } = spawnSync(pinned, process.argv.slice(1), { stdio: 'inherit' })
  process.exit(status ?? (signal ? 1 : 0))
}
module.enableCompileCache?.()
await import('../src/cli.ts')
