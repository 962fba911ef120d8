import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const repository = join(import.meta.dirname, '../../..')

test.each(['start', 'run dev', 'test', 'run check', 'run format', 'run generate', 'pack -w widget'])(
  '"npm %s" sets up a fresh clone first',
  (command) => {
    const clone = mkdtempSync(join(tmpdir(), 'inlay-clone-'))
    onTestFinished(() => rmSync(clone, { recursive: true, force: true }))
    for (const file of ['package.json', 'widget/package.json']) {
      mkdirSync(dirname(join(clone, file)), { recursive: true })
      cpSync(join(repository, file), join(clone, file))
    }
    // The real one needs the network; npm stops at a step that fails.
    mkdirSync(join(clone, 'scripts'))
    writeFileSync(join(clone, 'scripts/setup.mjs'), `console.error('setting up'); process.exit(7)`)
    const { status, stderr } = spawnSync('npm', command.split(' '), { cwd: clone, encoding: 'utf8' })
    expect({ status, isSetUp: stderr.includes('setting up') }).toEqual({ status: 7, isSetUp: true })
  },
)
