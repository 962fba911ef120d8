import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'

/** Makes a folder with a “server” in it, and says where. */
const program = `
  import { spawn } from 'node:child_process'
  import { writeFileSync } from 'node:fs'
  import { join } from 'node:path'
  import { makeRunFolder } from ${JSON.stringify(join(import.meta.dirname, 'engines/engines.ts'))}
  const { path, remove } = makeRunFolder('guarded')
  const server = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' })
  server.unref()
  writeFileSync(join(path, 'postmaster.pid'), server.pid + '\\n')
  process.stdin.once('data', remove)
  console.log(JSON.stringify({ path, pid: server.pid }))`

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test.each(['is killed', 'ends'])('a test run that %s leaves no server and no folder behind', async (how) => {
  const run = spawn(process.execPath, ['--input-type=module-typescript', '-e', program], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [line] = await once(run.stdout, 'data')
  const { path, pid } = JSON.parse(String(line)) as { path: string; pid: number }
  expect([existsSync(path), isRunning(pid)]).toEqual([true, true])
  if (how === 'is killed') run.kill('SIGKILL')
  else run.stdin.end('remove')
  await vi.waitFor(() => expect([existsSync(path), isRunning(pid)]).toEqual([false, false]), { timeout: 30_000 })
})
