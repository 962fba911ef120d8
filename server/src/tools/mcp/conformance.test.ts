import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectDocumented, readResults } from '../../../test/conformance.ts'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { conformanceOffer } from '../../../test/mcp-fixtures.ts'
import { createAccess } from '../../accounts/access/access.ts'
import { createObserver } from '../../kernel/http/observation.ts'
import { createDispatcher } from './dispatcher.ts'
import { createEndpoint } from './endpoint.ts'

const repository = join(import.meta.dirname, '../../../..')
const expectedFailures = join(import.meta.dirname, '../../../test/mcp-expected-failures.yml')

describe('the conformance suite', () => {
  let app: TestService
  const servers: Server[] = []
  beforeAll(async () => {
    app = await startTestService()
  })
  afterAll(async () => {
    for (const server of servers) server.close().closeAllConnections()
    await app.close()
  })

  /** Adds a token to each request, because the suite can't send one. */
  async function listen(listener: RequestListener): Promise<string> {
    const authorization = `Bearer ${await app.tokenFor('admin@demo.test', 'demo')}`
    const server = createServer((request, response) => {
      request.headers.authorization = authorization
      listener(request, response)
    })
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `http://localhost:${(server.address() as AddressInfo).port}/mcp`
  }

  async function runSuite(name: string, url: string, args: string[]) {
    const folder = join(repository, 'test-results/conformance/server', name)
    rmSync(folder, { recursive: true, force: true })
    const program = join(repository, 'node_modules/.bin/conformance')
    const run = promisify(execFile)(program, ['server', '--url', url, '-o', folder, ...args], { maxBuffer: 2 ** 26 })
    const { code, stdout } = await run.then(
      ({ stdout }) => ({ code: 0, stdout }),
      (error: { code: number; stdout: string }) => error,
    )
    return { code, summary: stdout.slice(stdout.indexOf('=== SUMMARY')), folder }
  }

  test.each(['2026-07-28', '2025-11-25'])(
    'passes for %s, except for documented exceptions',
    async (revision) => {
      const dispatcher = await createDispatcher(app.service, conformanceOffer)
      const endpoint = createEndpoint(app.service, await createAccess(app.service), dispatcher)
      const observe = createObserver(app.service)
      const url = await listen(
        (request, response) => void endpoint(request, response, observe(), { path: '/mcp', query: '' }),
      )
      const args = ['--requirements', revision, '--expected-failures', expectedFailures]
      const { code, summary, folder } = await runSuite(revision, url, args)
      expect({ code, summary }).toMatchObject({ code: 0, summary: expect.stringContaining('SUMMARY') })
      expectDocumented('MCP server', revision, readResults(folder))
    },
    120_000,
  )

  // Runs against the shipped server, without the suite's fixtures.
  test.each([
    'server-initialize',
    'tools-list',
    'dns-rebinding-protection',
    'http-header-validation',
    'sep-2640-skills-enumeration',
    'sep-2640-skills-manifest',
  ])(
    'passes %s as shipped',
    async (scenario) => {
      const url = await listen((request, response) => void app.listener(request, response))
      const { code, summary } = await runSuite(`shipped/${scenario}`, url, ['--scenario', scenario])
      expect({ code, summary }).toMatchObject({ code: 0 })
    },
    60_000,
  )
})
