#!/usr/bin/env node
// Runs the command on the pinned Node, whatever Node the machine has, and caches compiled code between runs.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import module from 'node:module'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'

// npm passes signals on to a shell, which ends without passing them on. A server must not outlive both.
if (process.env.npm_command) {
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    process.kill(process.pid, 'SIGTERM')
  }, 500)
  timer.unref()
}

const required = 26
if (Number(process.versions.node.split('.')[0]) < required) runOnPinnedNode()
else if (process.argv[2] === 'start' && hasTooManyThreads())
  restart(`--v8-pool-size=${Math.max(availableParallelism() - 1, 1)}`)
else {
  module.enableCompileCache?.()
  await import('../src/cli.ts')
}

/**
 * V8 collects garbage on four threads beside the one that handles requests. On fewer cores, they take CPU time from it,
 * and replies stop for a moment; see the agent in bench/README.md.
 */
function hasTooManyThreads() {
  const options = [...process.execArgv, process.env.NODE_OPTIONS]
  const isChosen = options.some((option) => option?.includes('--v8-pool-size'))
  // The channel to a parent, as of `node --watch`, would be lost. On Windows, a process can't be replaced.
  return !isChosen && availableParallelism() < 5 && !process.channel && process.execve !== undefined
}

/** Replaces this process with one that has another option. It keeps its number, files and environment. */
function restart(option) {
  process.execve(process.execPath, [process.execPath, ...process.execArgv, option, ...process.argv.slice(1)])
}

function runOnPinnedNode() {
  const pinned = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url))
  if (!existsSync(pinned) || process.execPath === pinned) {
    console.error(`Inlay needs Node ${required}, this is ${process.version}. Run: node scripts/setup.mjs`)
    process.exit(1)
  }
  const child = spawn(pinned, process.argv.slice(1), { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
  child.once('error', (error) => {
    console.error(`inlay: ${pinned} cannot be run: ${error.message}`)
    process.exit(1)
  })
  child.once('exit', (code) => process.exit(code ?? 1))
}
