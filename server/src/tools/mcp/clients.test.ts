import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client'
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { callEveryTool, toolSamples } from '../../../test/samples.ts'
import { tools } from '../../api.ts'

let app: HttpService
let headers: { Authorization: string }
beforeAll(async () => {
  app = await startHttpService()
  headers = { Authorization: `Bearer ${await app.tokenFor('admin@demo.test', 'demo')}` }
})
afterAll(() => app.close())

const names = tools.map(({ name }) => name)

const argumentsOf = (name: string) => ({ ...toolSamples[name]?.valid[0] }) as Record<string, unknown>

async function connectV1() {
  const client = new ClientV1({ name: 'test', version: '1.0.0' })
  await client.connect(new TransportV1(new URL(`${app.url}/mcp`), { requestInit: { headers } }))
  onTestFinished(() => client.close())
  return client
}

async function connectV2(mode: 'auto' | 'legacy') {
  const client = new ClientV2({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
  await client.connect(new TransportV2(new URL(`${app.url}/mcp`), { requestInit: { headers } }))
  onTestFinished(() => client.close())
  return client
}

// The clients validate results against the published schemas with their own validators.
describe.each([
  ['SDK 1.32', connectV1],
  ['SDK 2.4 in the older era', () => connectV2('legacy')],
  ['SDK 2.4 in the newer era', () => connectV2('auto')],
])('%s', (_, connect) => {
  test('lists and calls every tool', async () => {
    const client = await connect()
    const listed = await client.listTools()
    expect(listed.tools.map(({ name }) => name)).toEqual(names)
    expect(await callEveryTool(client), 'unexpected results').toEqual([])
  })

  test('reads skills', async () => {
    const client = await connect()
    const { resources } = await client.listResources()
    const { contents } = await client.readResource({ uri: resources[0]?.uri ?? '' })
    expect(contents[0]).toMatchObject({ mimeType: 'text/markdown', text: expect.stringMatching(/^---\n/) })
  })
})

test('SDK 2.4 negotiates the newer version', async () => {
  const client = await connectV2('auto')
  expect(client.getNegotiatedProtocolVersion()).toBe('2026-07-28')
  expect(client.getServerVersion()).toMatchObject({ name: 'inlay' })
})

test('SDK 2.4 lists and verifies skills through the extension', async () => {
  const skills = new SkillsClient(await connectV2('auto'))
  const { skills: found } = await skills.list()
  expect(found.map(({ frontmatter }) => frontmatter.name)).toEqual(['skill-creator-webmcp'])
})

describe('the Inspector’s command line', () => {
  const program = join(import.meta.dirname, '../../../../node_modules/.bin/mcp-inspector')
  const inspect = async (...args: string[]) => {
    const target = [`${app.url}/mcp`, '--transport', 'http', '--header', `Authorization: ${headers.Authorization}`]
    const run = promisify(execFile)(program, ['--cli', ...target, ...args], {
      env: { ...process.env, HOME: '/nonexistent' },
    })
    const { stdout } = await run.catch((error: { stdout: string }) => error)
    return JSON.parse(stdout)
  }

  test('lists every tool', async () => {
    const listed = await inspect('--method', 'tools/list')
    expect(listed.tools.map(({ name }: { name: string }) => name)).toEqual(names)
  })

  test.each(names)(
    'calls %s',
    async (name) => {
      const args = Object.entries(argumentsOf(name)).flatMap(([key, value]) => ['--tool-arg', `${key}=${value}`])
      const { isError = false } = await inspect('--method', 'tools/call', '--tool-name', name, ...args)
      expect(isError).toBe(toolSamples[name]?.fails ?? false)
    },
    60_000,
  )
})
