import { once } from 'node:events'
import { createServer, request as sendRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { EventType } from '@ag-ui/core'
import { expect, onTestFinished, test } from 'vitest'
import { EventStream } from './stream.ts'

/** A stream to a client that doesn't read unless it's told to. */
async function openStream() {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const asked = sendRequest({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' })
  asked.on('error', () => undefined).end()
  const [, response] = await once(server, 'request')
  const stream = new EventStream(response, { 'x-request-id': 'r' })
  stream.open()
  const [answer] = await once(asked, 'response')
  answer.on('error', () => undefined)
  return { stream, answer, response }
}

const event = (delta: string) => ({ type: EventType.TEXT_MESSAGE_CONTENT as const, messageId: 'm', delta })

test('events are sent as JSON in one line each', async () => {
  const { stream, answer } = await openStream()
  stream.send([event('a\nb'), event('c')])
  stream.end([event('d')])
  expect(answer.headers).toMatchObject({ 'content-type': 'text/event-stream', 'x-request-id': 'r' })
  expect((await answer.toArray()).join('')).toBe(
    ['a\\nb', 'c', 'd']
      .map((delta) => `data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"${delta}"}\n\n`)
      .join(''),
  )
})

test('a client that doesn’t read is disconnected before it fills the memory', async () => {
  const { stream, response } = await openStream()
  const closed = new Promise<boolean>((resolve) => stream.onClose(resolve))
  const megabyte = 'x'.repeat(1024 * 1024)
  for (let sent = 0; sent < 64 && !response.destroyed; sent += 1) {
    expect(response.writableLength).toBeLessThan(6 * 1024 * 1024)
    stream.send([event(megabyte)])
    await setImmediate()
  }
  expect(response.destroyed).toBe(true)
  expect(await closed, 'it doesn’t have everything').toBe(false)
})

test('a client that reads slowly gets everything', async () => {
  const { stream, answer } = await openStream()
  const megabyte = 'x'.repeat(1024 * 1024)
  for (let sent = 0; sent < 3; sent += 1) stream.send([event(megabyte)])
  const closed = new Promise<boolean>((resolve) => stream.onClose(resolve))
  stream.end([event('last')])
  expect((await answer.toArray()).join('').length).toBeGreaterThan(3 * megabyte.length)
  expect(await closed).toBe(true)
})
