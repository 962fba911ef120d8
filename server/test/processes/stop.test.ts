import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { expect, onTestFinished, test, vi } from 'vitest'
import { patience, type ServerProcess, useUsedInstallation } from '../processes.ts'

test('SIGTERM and SIGINT under load break no request, leave no process running and nothing to recover', async () => {
  const inlay = useUsedInstallation()
  const acknowledged: string[] = []
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const server = await inlay.start()
    const token = await inlay.token('admin@demo.test', 'demo')
    const load = startLoad(server, token, signal)
    await vi.waitFor(() => expect(load.names.length).toBeGreaterThan(100), patience)
    server.signal(signal)
    expect(await server.finished).toMatchObject({ code: 0, stderr: '' })
    expect(inlay.postmaster()).toBeUndefined()
    expect(new Set(await load.ends), 'how the clients noticed').toEqual(new Set(['ECONNREFUSED']))
    acknowledged.push(...load.names)
  }

  const server = await inlay.start()
  expect(inlay.postgresLog()).not.toMatch(/not properly shut down|recovery/)
  const token = await inlay.token('admin@demo.test', 'demo')
  const { body } = await server.call('GET', '/api/publishable-keys', { token })
  const names = body.keys.map(({ name }: { name: string }) => name)
  expect(names.sort(), 'exactly the acknowledged writes were done').toEqual(acknowledged.sort())
})

test('finishes a request in flight, and a second signal stops immediately', async () => {
  const inlay = useUsedInstallation()
  const first = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  const patient = await sendSlowly(first, token)
  first.signal('SIGTERM')
  await first.wrote('SIGTERM: finishing open requests')
  await vi.waitFor(() => expect(first.call('GET', '/readyz')).rejects.toThrow(), patience)
  const answer = await patient.finish()
  expect([answer.statusCode, answer.headers.connection]).toEqual([200, 'close'])
  expect((await first.finished).code).toBe(0)

  const second = await inlay.start()
  const cut = await sendSlowly(second, await inlay.token('admin@demo.test', 'demo'))
  second.signal('SIGINT')
  await second.wrote('SIGINT: finishing open requests')
  // Sent immediately, it would count as the same keystroke.
  const again = setInterval(() => second.signal('SIGINT'), 100)
  onTestFinished(() => clearInterval(again))
  expect((await second.finished).code).toBe(1)
  await expect(cut.finish()).rejects.toThrow()
})

test('a stopping server accepts connections for as long as its load balancer needs to notice', async () => {
  const inlay = useUsedInstallation({ INLAY_DRAIN_SECONDS: '600' })
  const server = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  server.signal('SIGTERM')
  await server.wrote('SIGTERM: finishing open requests')
  expect(await server.call('GET', '/readyz')).toEqual({ status: 503, body: { status: 'stopping' } })
  expect((await server.call('GET', '/api/users/me', { token })).status).toBe(200)
  const again = setInterval(() => server.signal('SIGTERM'), 100)
  onTestFinished(() => clearInterval(again))
  expect((await server.finished).code, 'a second signal stops immediately').toBe(1)
})

test('a server started by npm stops when the shell between them is killed', async () => {
  const inlay = useUsedInstallation()
  const shell = inlay.launchByNpm()
  await shell.wrote('Inlay is ready')
  shell.signal('SIGTERM')
  const { stdout } = await shell.finished
  expect(stdout).toContain('SIGTERM: finishing open requests')
  expect(inlay.postmaster()).toBeUndefined()
})

/** Clients that keep writing on persistent connections until they are told to stop. */
function startLoad(server: ServerProcess, token: string, label: string): { names: string[]; ends: Promise<string[]> } {
  const agent = new Agent({ keepAlive: true })
  onTestFinished(() => agent.destroy())
  const names: string[] = []
  const clients = Array.from({ length: 16 }, async (_, client) => {
    for (let turn = 0; ; turn += 1) {
      const name = `${label} ${client}/${turn}`
      const outcome = await write(server, token, name, agent)
      if (outcome.startsWith('200')) names.push(name)
      else return outcome
    }
  })
  return { names, ends: Promise.all(clients) }
}

const write = (server: ServerProcess, token: string, name: string, agent: Agent) =>
  new Promise<string>((resolve) => {
    const sent = request(`${server.url}/api/publishable-keys`, { method: 'POST', agent, headers: headers(token) })
    sent.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    sent.once('response', (response) => {
      response.resume()
      response.once('error', (error) => resolve(`broken answer: ${error.message}`))
      response.once('end', () => resolve(`${response.statusCode} ${response.headers.connection}`))
    })
    sent.end(JSON.stringify({ name }))
  })

/** A request that is certainly in flight: the server has asked for the body, which is sent later. */
async function sendSlowly(server: ServerProcess, token: string): Promise<{ finish(): Promise<IncomingMessage> }> {
  const sent = request(`${server.url}/api/publishable-keys`, {
    method: 'POST',
    headers: { ...headers(token), expect: '100-continue' },
  })
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve)
    sent.once('error', reject)
  })
  answered.catch(() => undefined)
  sent.flushHeaders()
  await once(sent, 'continue')
  return {
    finish() {
      sent.end(JSON.stringify({ name: 'slow' }))
      return answered.then((response) => response.resume())
    },
  }
}

const headers = (token: string) => ({ authorization: `Bearer ${token}`, 'content-type': 'application/json' })
