import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, inject, onTestFinished, test } from 'vitest'

const repository = join(import.meta.dirname, '../../..')

/** All of the suite's scenarios for clients that users consent to, and the one for assertions. */
const authorization = [
  'enterprise-managed-authorization',
  'metadata-default',
  'metadata-var1',
  'metadata-var2',
  'metadata-var3',
  'basic-cimd',
  'scope-from-www-authenticate',
  'scope-from-scopes-supported',
  'scope-omitted-when-undefined',
  'scope-step-up',
  'scope-retry-limit',
  'token-endpoint-auth-basic',
  'token-endpoint-auth-post',
  'token-endpoint-auth-none',
  'pre-registration',
  'resource-mismatch',
  'offline-access-scope',
  'offline-access-not-supported',
  'authorization-server-migration',
  'iss-supported',
  'iss-not-advertised',
  'iss-supported-missing',
  'iss-wrong-issuer',
  'iss-unexpected',
  'iss-normalized',
  'metadata-issuer-mismatch',
  '2025-03-26-oauth-metadata-backcompat',
  '2025-03-26-oauth-endpoint-fallback',
]
const scenarios = [...authorization.map((name) => `auth/${name}`), 'http-custom-headers', 'http-invalid-tool-headers']

/** The stores make no difference to it, so once is enough. */
describe.runIf(inject('engines').redisUrl === undefined)(
  'the conformance suite passes with the hub as its client:',
  () => {
    test.each(scenarios)('%s', async (scenario) => {
      const folder = mkdtempSync(join(tmpdir(), 'inlay-conformance-'))
      onTestFinished(() => rmSync(folder, { recursive: true }))
      const program = join(repository, 'node_modules/.bin/conformance')
      const command = `${process.execPath} ${join(repository, 'server/test/conformance-hub.ts')}`
      const args = ['client', '--command', command, '--scenario', scenario, '-o', folder]
      const { stdout, stderr } = await promisify(execFile)(program, args, { maxBuffer: 2 ** 26 })
      expect(stdout + stderr).toContain('0 failed, 0 warnings')
      expect(stdout + stderr).toContain('OVERALL: PASSED')
    })
  },
)
