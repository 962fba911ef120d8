import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { expectDocumented, readResults } from '../../../test/conformance.ts'
import { type Context, runAsClient } from '../../../test/conformance-hub.ts'
import { createFairQueue } from '../../kernel/lib/shares/fair-queue.ts'
import { StepFailed } from '../connectors/steps.ts'

const repository = join(import.meta.dirname, '../../../..')

/** The suite's scenarios for user consent, and the one for ID-JAG assertions. */
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
/** The hub must refuse to talk to the servers of these scenarios. */
const refused = [
  'auth/resource-mismatch',
  'auth/iss-supported-missing',
  'auth/iss-wrong-issuer',
  'auth/iss-unexpected',
  'auth/iss-normalized',
  'auth/metadata-issuer-mismatch',
]
/** The scenarios that don't apply to the hub. */
const notApplicable = [
  // The hub relays calls and has no user to ask: it declares neither elicitation nor sampling.
  'elicitation-sep1034-client-defaults',
  'sep-2322-client-request-state',
  // The hub doesn't resume an interrupted response: the call fails at once, and no tool is called twice.
  'sse-retry',
  // The hub doesn't implement these extensions: it always acts for a user, with bearer tokens.
  'auth/client-credentials-jwt',
  'auth/client-credentials-basic',
  'auth/dpop',
  'auth/dpop-nonce',
  'auth/wif-jwt-bearer',
  // The hub doesn't read the skills of tool servers.
  'sep-2640-client-no-prefetch',
  'sep-2640-client-verify-digest',
  'sep-2640-client-verify-size',
  'sep-2640-client-verify-frontmatter',
]
const results = join(repository, 'test-results/conformance/client')

describe('the conformance suite, with the hub as its client', () => {
  const failures = new Map<string, unknown>()
  beforeAll(async () => {
    rmSync(results, { recursive: true, force: true })
    // The suite starts all clients together. Scenarios wait for that, because it would make them time out.
    const queue = createFairQueue({ atATime: 2, waiting: scenarios.length })
    const started = Promise.withResolvers<void>()
    let clients = 0
    const server = await listenForScenarios(async ({ scenario, serverUrl, context }) => {
      if (notApplicable.includes(scenario)) return
      clients += 1
      if (clients === scenarios.length) started.resolve()
      await started.promise
      await queue('', () => runAsClient(scenario, serverUrl, context)).catch((error) => failures.set(scenario, error))
    })
    const client = join(repository, 'server/test/conformance-client.ts')
    const command = `${process.execPath} ${client} ${server.url}`
    // The exit code also counts the scenarios that don't apply.
    await run('client', '--suite', 'all', '--command', command, '--timeout', '110000', '-o', results).catch(
      (error) => error,
    )
    await server.close()
  })

  test.each(scenarios)('passes %s', (scenario) => {
    const refusal = refused.includes(scenario) ? expect.any(StepFailed) : undefined
    expect(failures.get(scenario)).toEqual(refusal)
    const [checks = [], ...others] = readResults(results, scenario)
    expect(others).toEqual([])
    expect(checks.some(({ status }) => status === 'SUCCESS')).toBe(true)
    expect(checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING')).toEqual([])
  })

  test('lists every other scenario as not applicable, with the reason', async () => {
    const { stdout } = await run('list', '--client')
    const all = [...stdout.matchAll(/^ *- (\S+)/gm)].map(([, name]) => name)
    expect([...scenarios, ...notApplicable].sort()).toEqual(all.sort())
  })

  test('has the documented figures', () => {
    const passed = scenarios.flatMap((scenario) => readResults(results, scenario))
    expectDocumented('MCP client (the hub)', 'all', passed, notApplicable.length)
  })
})

async function listenForScenarios(
  handle: (run: { scenario: string; serverUrl: string; context: Context }) => Promise<void>,
) {
  const server = createServer(async (request, response) => {
    await handle(JSON.parse(await text(request)))
    response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => new Promise((resolve) => server.close(resolve).closeAllConnections()),
  }
}

function run(...args: string[]): Promise<{ stdout: string }> {
  return promisify(execFile)(join(repository, 'node_modules/.bin/conformance'), args, { maxBuffer: 2 ** 26 })
}
