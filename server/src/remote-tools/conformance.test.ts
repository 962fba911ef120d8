import { execFile } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { parse } from 'yaml'
import { expectDocumented, readResults } from '../../test/conformance.ts'

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
const scenarios = [
  ...authorization.map((name) => `auth/${name}`),
  'initialize',
  'tools_call',
  'request-metadata',
  'http-standard-headers',
  'http-custom-headers',
  'http-invalid-tool-headers',
  'json-schema-ref-no-deref',
  'json-schema-2020-12-preservation',
]
const notRun: string[] = parse(readFileSync(join(repository, 'server/test/mcp-expected-failures.yml'), 'utf8')).client
const program = join(repository, 'node_modules/.bin/conformance')
const run = (...args: string[]) => promisify(execFile)(program, args, { maxBuffer: 2 ** 26 })

/** The stores make no difference to it, so once is enough. */
describe.runIf(inject('engines').redisUrl === undefined)(
  'the conformance suite passes with the hub as its client:',
  () => {
    const results = join(repository, 'test-results/conformance/client')
    const passed = new Set<string>()
    beforeAll(() => rmSync(results, { recursive: true, force: true }))
    afterAll(() => {
      // Not when somebody runs a few of the scenarios.
      if (passed.size < scenarios.length) return
      expectDocumented('MCP client (the hub)', 'all', readResults(results), notRun.length)
    })

    test.each(scenarios)('%s', async (scenario) => {
      const command = `${process.execPath} ${join(repository, 'server/test/conformance-hub.ts')}`
      const { stdout, stderr } = await run('client', '--command', command, '--scenario', scenario, '-o', results)
      expect(stdout + stderr).toContain('0 failed, 0 warnings')
      expect(stdout + stderr).toContain('OVERALL: PASSED')
      passed.add(scenario)
    })

    test('every other scenario is listed with the reason why it does not apply', async () => {
      const { stdout } = await run('list', '--client')
      const all = [...stdout.matchAll(/^ *- (\S+)/gm)].map(([, name]) => name)
      expect([...scenarios, ...notRun].sort()).toEqual(all.sort())
    })
  },
)
