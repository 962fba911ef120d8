import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, inject, onTestFinished, test } from 'vitest'

const repository = join(import.meta.dirname, '../../..')

/** The stores make no difference to it, so once is enough. */
describe.runIf(inject('engines').redisUrl === undefined)('the conformance suite', () => {
  test('passes enterprise-managed authorization with the hub as its client', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'inlay-conformance-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const program = join(repository, 'node_modules/.bin/conformance')
    const command = `${process.execPath} ${join(repository, 'server/test/conformance-hub.ts')}`
    const args = ['client', '--command', command, '--scenario', 'auth/enterprise-managed-authorization', '-o', folder]
    const { stdout, stderr } = await promisify(execFile)(program, args, { maxBuffer: 2 ** 26 })
    expect(stdout + stderr).toContain('0 failed, 0 warnings')
    expect(stdout + stderr).toContain('OVERALL: PASSED')
  }, 60_000)
})
