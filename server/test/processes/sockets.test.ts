import { once } from 'node:events'
import { request } from 'node:http'
import { expect, test } from 'vitest'
import { openPage, pageOrigin } from '../page.ts'
import { useUsedInstallation } from '../processes.ts'

test('a stopping server asks pages to reconnect, and does not wait for those that do not respond', async () => {
  const inlay = useUsedInstallation()
  const server = await inlay.start()
  const token = await inlay.token('admin@demo.test', 'demo')
  const { body: key } = await server.call('POST', '/api/publishable-keys', { token, body: { name: 'Shop' } })
  const ticket = async () => {
    const body = { publishable_key: key.key, embedding_origin: pageOrigin }
    return (await server.call('POST', '/api/auth/pk-ticket', { body })).body.ticket
  }
  const page = await openPage(server.url, await ticket())
  const deaf = await openPage(server.url, await ticket())
  deaf.socket.pause()
  server.signal('SIGTERM')
  expect(await page.next('bye')).toMatchObject({ code: 'restarting', retry_after_ms: expect.any(Number) })
  expect((await page.closed).code).toBe(1012)
  expect(await server.finished).toMatchObject({ code: 0, stderr: '' })
})

test('a request that offers another protocol is served as usual', async () => {
  const server = await useUsedInstallation().start()
  const asked = request(`${server.url}/healthz`, {
    headers: { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQAAP__' },
  })
  asked.end()
  const [response] = await once(asked, 'response')
  expect(response.statusCode).toBe(200)
  expect((await response.toArray()).join('')).toBe('{"status":"ok"}')
})
