import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { availableParallelism, networkInterfaces } from 'node:os'
import { expect, onTestFinished, test } from 'vitest'
import { commandOf, useInstallation, useUsedInstallation } from '../processes.ts'

test('V8 gets no more threads than there are other cores, unless the operator chose how many', async () => {
  const inlay = useUsedInstallation()
  const first = await inlay.start()
  const others = Math.max(availableParallelism() - 1, 1)
  expect(commandOf(first.pid).match(/--v8-pool-size=\d+/)?.[0]).toBe(
    others < 4 ? `--v8-pool-size=${others}` : undefined,
  )
  first.signal('SIGTERM')
  expect(await first.finished).toMatchObject({ code: 0 })
  const second = await inlay.start({ NODE_OPTIONS: '--v8-pool-size=2' })
  expect(commandOf(second.pid)).not.toContain('--v8-pool-size')
})

test('a first start on an empty folder works, and its banner shows how to try it', async () => {
  const inlay = useInstallation()
  const server = await inlay.start()
  const banner = server.stdout()
  expect(await server.call('GET', '/readyz')).toEqual({
    status: 200,
    body: { status: 'ok', stores: { database: 'ok', kv: 'ok' } },
  })
  expect(banner).toContain(`Inlay is ready on ${server.url} `)
  expect(banner).toContain(`MCP          ${server.url}/mcp `)
  expect(banner).toMatch(/^ {2}Model {8}demo {8}docs\/agent\.md: how to use a real model$/m)
  for (const email of ['admin@demo.test', 'member@demo.test', 'admin@other.test', 'nobody@demo.test']) {
    expect(banner).toContain(email)
  }

  const [, shop = ''] = banner.match(/^ {2}Widget +(\S+)/m) ?? []
  const page = await (await fetch(shop)).text()
  expect(page, 'a page with the widget, and a key for it').toMatch(/<inlay-agent data-key="pk_test_\w+"/)
  expect(page).toContain(`src="${server.url}/widget.js"`)

  const [, url = '', command = ''] =
    banner.match(/curl -s (\S+) -H "Authorization: Bearer \$\(npx inlay (.+?)\)"/) ?? []
  const printed = await inlay.run(command)
  expect(printed).toMatchObject({ code: 0, stderr: '' })
  expect(printed.stdout, 'one line, a JWT').toMatch(/^eyJ[\w-]+\.[\w-]+\.[\w-]+\n$/)
  const answer = await fetch(url, { headers: { authorization: `Bearer ${printed.stdout.trim()}` } })
  expect(answer.status).toBe(200)
  expect(await answer.json()).toMatchObject({ email: 'admin@demo.test' })

  const withoutOrganization = await inlay.token('member@demo.test')
  expect(await server.call('GET', '/api/users/me', { token: withoutOrganization })).toMatchObject({
    status: 200,
    body: { email: 'member@demo.test' },
  })
  expect(await server.call('GET', '/api/publishable-keys', { token: withoutOrganization })).toMatchObject({
    status: 403,
    body: { code: 'ORG_CONTEXT_REQUIRED' },
  })

  const refusals = await Promise.all([
    inlay.run('token --email stranger@demo.test'),
    inlay.run('token --email nobody@demo.test --org demo'),
    inlay.run('token --email admin@demo.test --org nowhere'),
    inlay.run('token'),
  ])
  expect(refusals).toEqual([
    refused(
      'No user has the email address stranger@demo.test. Add them with: npx inlay user add --email stranger@demo.test',
    ),
    refused(
      `nobody@demo.test isn't a member of "demo". Add them with: npx inlay user add --email nobody@demo.test --org`,
    ),
    refused('No organization has the slug "nowhere"'),
    refused("You aren't signed in to"),
  ])

  expect(await inlay.run('start'), 'a second server on the folder').toEqual(
    refused(`Another Inlay server uses the data folder ${inlay.dataDir}. Stop it first`),
  )
  expect((await server.call('GET', '/readyz')).status, 'the first one keeps running').toBe(200)

  server.signal('SIGTERM')
  await server.finished
  const started = performance.now()
  const again = await inlay.start()
  const seconds = (performance.now() - started) / 1000
  expect((await again.call('GET', '/readyz')).status).toBe(200)
  const megabytes = residentMegabytes(again.pid)
  console.log(`Warm start ${seconds.toFixed(2)} s, idle memory ${megabytes?.toFixed(0) ?? '?'} MB`)
  expect(megabytes ?? 0).toBeLessThan(200)
})

test('a taken port is reported before anything is created', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  onTestFinished(() => void other.close())
  const { port } = other.address() as AddressInfo
  const inlay = useInstallation({ PORT: String(port) })
  expect(await inlay.run('start')).toEqual({ ...refused(`Port ${port} is already in use.`), stdout: '' })
  expect(inlay.postmaster()).toBeUndefined()
})

test('a development server accepts connections only from this computer, unless the operator overrides it and is warned', async () => {
  const outside = Object.values(networkInterfaces())
    .flat()
    .find((address) => address?.family === 'IPv4' && !address.internal)?.address
  const inlay = useUsedInstallation()
  const closed = await inlay.start()
  const [, shop = ''] = closed.stdout().match(/^ {2}Widget +(\S+)/m) ?? []
  for (const { port } of [new URL(closed.url), new URL(shop)]) {
    expect(await reaches('127.0.0.1', port)).toBe(true)
    expect(await reaches('localhost', port)).toBe(true)
    expect(await reaches('::1', port), 'where there is IPv6').toBe(hasLoopback6())
    if (outside) expect(await reaches(outside, port)).toBe(false)
  }
  expect(closed.stdout()).not.toContain('WARNING')
  closed.signal('SIGTERM')
  await closed.finished

  const open = await inlay.start({ INLAY_LISTEN: '0.0.0.0' })
  expect(open.stdout()).toContain('WARNING: other computers can reach this server, because INLAY_LISTEN is 0.0.0.0.')
  if (outside) expect(await reaches(outside, new URL(open.url).port)).toBe(true)

  expect(await inlay.run('start', { INLAY_LISTEN: '192.0.2.1' })).toEqual(
    refused("INLAY_LISTEN is 192.0.2.1, which isn't an address of this computer."),
  )
})

const hasLoopback6 = () =>
  Object.values(networkInterfaces())
    .flat()
    .some((address) => address?.address === '::1')

const reaches = (host: string, port: string) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(Number(port), host)
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    onTestFinished(() => void socket.destroy())
  })

const refused = (message: string) => ({
  code: 1,
  stdout: '',
  stderr: expect.stringContaining(`inlay: ${message}`),
})

function residentMegabytes(pid: number): number | undefined {
  if (process.platform !== 'linux') return undefined
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(status.match(/VmRSS:\s+(\d+) kB/)?.[1]) / 1024
}
