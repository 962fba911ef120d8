import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { useInstallation } from '../processes.ts'

const publicUrl = 'https://inlay.example.com'
const secret = randomBytes(32).toString('base64')

test.each([
  ['no secret', {}, 'INLAY_SECRET is missing'],
  ['a short secret', { INLAY_SECRET: 'short' }, 'INLAY_SECRET must be at least 32 random characters'],
  ['a placeholder', { INLAY_SECRET: 'change-me-0123456789-abcdefghijklmnopqrstuvwxyz' }, 'looks like a placeholder'],
])('production refuses to start with %s', async (_, env: Record<string, string>, message) => {
  const inlay = useInstallation({ INLAY_PUBLIC_URL: publicUrl, ...env })
  const { code, stdout, stderr } = await inlay.run('start')
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toContain(message)
  expect(stderr, 'no stack trace').not.toContain('    at ')
  if (env.INLAY_SECRET) expect(stderr).not.toContain(env.INLAY_SECRET)
})

test('production starts empty, and its link sets up the first administrator once', async () => {
  const inlay = useInstallation({ INLAY_PUBLIC_URL: publicUrl, INLAY_SECRET: secret })
  const server = await inlay.start()
  expect(server.stdout()).toContain(`Inlay is ready on ${publicUrl} `)
  expect(server.stdout()).not.toMatch(/demo/i)
  expect(await inlay.run('token --email admin@demo.test --org demo')).toMatchObject({ code: 1, stdout: '' })
  expect((await fetch(`${server.url}/metrics`)).status).toBe(404)

  const link = server.stdout().match(/https:\/\/inlay\.example\.com(\/setup\?token=\S+)/)?.[1] ?? ''
  const token = new URLSearchParams(link.split('?')[1]).get('token') ?? ''
  const open = (path = link) => read(fetch(`${server.url}${path}`))
  const submit = (fields: Record<string, string>) =>
    read(fetch(`${server.url}/setup`, { method: 'POST', body: new URLSearchParams({ token, ...fields }) }))

  const page = await open()
  expect(page).toMatchObject({ status: 200, text: expect.stringContaining(`name="token" value="${token}"`) })
  expect(page.headers.get('cache-control')).toBe('no-store')
  expect(page.headers.get('strict-transport-security')).toBeTruthy()
  expect((await open('/setup?token=guessed')).status).toBe(404)
  expect((await open('/setup')).status).toBe(404)

  const good = {
    name: 'Ada "the first"',
    email: 'Ada@Example.com',
    password: 'correct horse battery',
    organization: '<b>Acme</b> & Söhne',
  }
  const corrected = await submit({ ...good, password: 'too short' })
  expect(corrected).toMatchObject({ status: 400, text: expect.stringContaining('Use at least 12 characters') })
  expect(corrected.text).toContain('value="Ada &#34;the first&#34;"')
  expect(corrected.text).toContain('value="&#60;b&#62;Acme&#60;/b&#62; &#38; Söhne"')
  expect(corrected.text, 'the password is not sent back').not.toContain('too short"')
  const guessable = await submit({ ...good, password: 'aaaaaaaaaaaa' })
  expect(guessable).toMatchObject({ status: 400, text: expect.stringContaining('easy to guess') })
  expect((await submit({ ...good, name: 'x'.repeat(20_000) })).status, 'large forms are rejected').toBe(413)
  expect((await submit({ ...good, token: 'guessed' })).status).toBe(404)

  const [done, late] = (await Promise.all([submit(good), submit({ ...good, email: 'eve@example.com' })])).sort(
    (one, other) => one.status - other.status,
  )
  expect([done?.status, late?.status], 'one of two concurrent requests succeeds').toEqual([200, 404])
  expect(done?.text).toContain('&#60;b&#62;Acme&#60;/b&#62; &#38; Söhne is ready')
  expect(done?.text).not.toContain('<b>')
  const [, command = '', email = ''] = done?.text.match(/npx inlay (token --email (\S+) --org \S+?)</) ?? []
  expect((await open()).status).toBe(404)
  const again = await submit(good)
  expect(again).toMatchObject({ status: 404, text: expect.stringContaining('This link isn’t valid') })

  const bearer = (await inlay.run(command)).stdout.trim()
  const me = await server.call('GET', '/api/users/me', { token: bearer })
  expect(me).toMatchObject({ status: 200, body: { email: email.toLowerCase() } })
  const created = await server.call('POST', '/api/publishable-keys', { token: bearer, body: { name: 'widget' } })
  expect(created).toMatchObject({ status: 200, body: { key: expect.stringMatching(/^pk_live_/) } })
  for (const hidden of [token, bearer, good.password, created.body.key]) {
    expect(server.stdout().replace(link, ''), 'no secret is logged').not.toContain(hidden)
  }
  server.signal('SIGTERM')
  expect((await server.finished).code).toBe(0)

  const watched = await inlay.start({ INLAY_METRICS_TOKEN: 'for-the-scraper' })
  expect(watched.stdout(), 'a user exists now').not.toContain('/setup')
  const metrics = (authorization: string) => read(fetch(`${watched.url}/metrics`, { headers: { authorization } }))
  expect(await metrics('Bearer for-the-scraper')).toMatchObject({
    status: 200,
    text: expect.stringContaining('# TYPE'),
  })
  expect((await metrics('Bearer something-else')).status).toBe(404)
  expect((await metrics('')).status).toBe(404)
  expect((await watched.call('GET', '/api/users/me', { token: bearer })).status, 'tokens outlive a restart').toBe(200)
})

async function read(answer: Promise<Response>) {
  const response = await answer
  return { status: response.status, headers: response.headers, text: await response.text() }
}
