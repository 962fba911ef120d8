import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, test } from 'vitest'
import { expectDocumented, readResults } from '../conformance.ts'
import { startHttpService } from '../http-server.ts'
import { nativeUri, register } from '../oauth-client.ts'
import { allowInBrowser } from './visit.ts'

const repository = join(import.meta.dirname, '../../..')
const suite = join(repository, 'node_modules/.bin/conformance')
const results = join(repository, 'test-results/conformance/authorization')

/** Checks that fail, each with the reason why it isn't ours to fix. */
const expectedFailures: Record<string, string> = {}

test('passes the MCP conformance suite for authorization servers', async () => {
  const app = await startHttpService()
  onTestFinished(() => app.close())
  rmSync(results, { recursive: true, force: true })
  mkdirSync(results, { recursive: true })
  const { client_id } = (await register(app.url, { redirect_uris: [nativeUri] })).clientMetadata()
  const options = {
    '--url': app.url,
    '--client-id': client_id,
    '--resource': `${app.url}/mcp`,
    '--port': String(await findFreePort()),
    '--output-dir': results,
  }
  const child = spawn(process.execPath, [suite, 'authorization', ...Object.entries(options).flat()], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill())
  const output: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    output.push(line)
    // The suite asks the user to open this URL, and waits.
    if (line.startsWith(`${app.url}/oauth/authorize?`)) {
      const page = await allowInBrowser(line)
      await page.getByText('You can close this page.').waitFor()
    }
  }
  writeFileSync(join(results, 'output.txt'), output.join('\n'))

  const scenarios = readResults(results)
  const checks = scenarios.flat()
  const ran = checks.map(({ id }) => id)
  expect(ran).toEqual(expect.arrayContaining(['authorization-server-metadata', 'authorization-code-grant']))
  const failed = checks.filter(({ status }) => status !== 'SUCCESS')
  const problems = JSON.stringify(failed, null, 2)
  expect(failed.map(({ id }) => id).sort(), problems).toEqual(Object.keys(expectedFailures).sort())
  expectDocumented('Authorization server', 'all', scenarios)
})

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
