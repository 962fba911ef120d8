import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

const pages = [
  '/setup',
  '/sign-in/set-password',
  '/billing/checkout',
  '/billing/portal',
  '/oauth/interaction/x/sign-in',
  '/oauth/interaction/x/organization',
  '/oauth/interaction/x/consent',
  '/oauth/logout/confirm',
  '/oauth/token',
  '/oauth/revoke',
  '/invitations',
  '/connect/0198c0de-0000-7000-8000-000000000000',
]
const urlencoded = 'application/x-www-form-urlencoded'
const chunked = (body: string) => `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`

const bodies: [string, { type: string; headers: string; body: string }][] = [
  ['in chunks', { type: urlencoded, headers: 'Transfer-Encoding: chunked', body: chunked('token=x&name=y') }],
  ['that is empty, in chunks', { type: urlencoded, headers: 'Transfer-Encoding: chunked', body: '0\r\n\r\n' }],
  ['that is not multipart', { type: 'multipart/form-data; boundary=x', headers: 'Content-Length: 7', body: 'garbage' }],
  ['of multipart without a boundary', { type: 'multipart/form-data', headers: 'Content-Length: 7', body: '--x\r\n--' }],
  ['with broken escapes', { type: urlencoded, headers: 'Content-Length: 9', body: 'token=%zz' }],
  ['of another type', { type: 'application/json', headers: 'Content-Length: 2', body: '{}' }],
  ['without a type', { type: '', headers: 'Content-Length: 2', body: 'ab' }],
  [
    'too large, in chunks',
    { type: urlencoded, headers: 'Transfer-Encoding: chunked', body: chunked('a'.repeat(70_000)) },
  ],
  ['too large', { type: urlencoded, headers: 'Content-Length: 70000', body: 'a'.repeat(70_000) }],
]

describe.each(pages)('POST %s', (path) => {
  test.each(bodies)('rejects a form %s with a status from 400 to 499', async (_, { type, headers, body }) => {
    const socket = connect(Number(new URL(app.local).port), 'localhost')
    let text = ''
    socket.setEncoding('latin1').on('data', (part: string) => {
      text += part
    })
    const { host } = new URL(app.local)
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${app.url}\r\nConnection: close\r\n${type && `Content-Type: ${type}\r\n`}${headers}\r\n\r\n${body}`,
    )
    await once(socket, 'close')
    expect(text).toMatch(/^HTTP\/1\.1 4\d\d /)
  })
})
