import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { Browser } from '../browser.ts'
import { type Installation, patience, type ServerProcess, useInstallation, useUsedInstallation } from '../processes.ts'

/** The command on a separate computer, whose browser records where it was sent. */
function useComputer(inlay: Installation) {
  const home = join(inlay.dataDir, '../home')
  const opened = join(home, 'opened')
  mkdirSync(join(home, 'bin'), { recursive: true })
  for (const name of ['xdg-open', 'open']) {
    writeFileSync(
      join(home, 'bin', name),
      `#!/bin/sh\nprintf %s "$1" > ${opened}.part && mv ${opened}.part ${opened}\n`,
    )
    chmodSync(join(home, 'bin', name), 0o755)
  }
  const config = join(home, 'config')
  const file = join(config, 'inlay/credentials.json')
  const env = { HOME: home, XDG_CONFIG_HOME: config, PATH: `${join(home, 'bin')}:${process.env.PATH}` }
  return {
    env,
    file,
    run: (command: string, more = {}) => inlay.run(command, { ...env, ...more }),
    opened: () => vi.waitFor(() => readFileSync(opened, 'utf8'), patience),
    credentials: () => JSON.parse(readFileSync(file, 'utf8')),
  }
}

async function signInWithBrowser(server: ServerProcess, address: string, decision: 'Allow' | 'Cancel') {
  const browser = await new Browser(server.url).open(address)
  await browser.press('admin@demo.test')
  await browser.press(decision)
  const back = String(browser.left)
  return { back, browser, text: await (await fetch(back)).text() }
}

test('a user signs in from the command line with the browser, and out again', async () => {
  const inlay = useUsedInstallation()
  const server = await inlay.start()
  const computer = useComputer(inlay)
  const login = computer.run(`login --url ${server.url}`)
  const address = await computer.opened()
  const shown = await signInWithBrowser(server, address, 'Allow')
  expect(shown.back).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/callback\?/)
  expect(shown.text).toContain('You’re signed in')
  expect(shown.text).toContain('Signed in as admin@demo.test for Demo')
  const { code, stdout, stderr } = await login
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toBe(
    `Sign in with your browser. If it doesn't open, go to:\n  ${address}\nSigned in as admin@demo.test for Demo. The tokens are stored in ${computer.file}\n`,
  )

  expect(statSync(computer.file).mode & 0o777).toBe(0o600)
  expect(statSync(join(computer.file, '..')).mode & 0o777).toBe(0o700)
  const { access_token: token, ...rest } = computer.credentials()[server.url]
  expect(Object.keys(computer.credentials())).toEqual([server.url])
  expect(rest).toEqual({
    client_id: expect.any(String),
    refresh_token: expect.any(String),
    expires_at: expect.stringMatching(/^\d{4}-.*Z$/),
  })
  expect(new Date(rest.expires_at).getTime()).toBeGreaterThan(Date.now())
  const me = () => server.call('GET', '/api/users/me', { token })
  expect(await me()).toMatchObject({ status: 200, body: { email: 'admin@demo.test' } })
  expect((await server.call('GET', '/api/publishable-keys', { token })).status).toBe(200)
  for (const hidden of [token, rest.refresh_token]) expect(stdout + server.stdout()).not.toContain(hidden)

  const print = async () => {
    const { code, stdout, stderr } = await computer.run(`token --url ${server.url}`)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    return stdout
  }
  const expire = () => {
    const credentials = computer.credentials()
    credentials[server.url].expires_at = new Date(Date.now() + 30_000).toISOString()
    writeFileSync(computer.file, JSON.stringify(credentials))
  }
  expect(await print()).toBe(`${token}\n`)
  expire()
  const [first, second] = await Promise.all([print(), print()])
  expect(first, 'a token that is about to expire is renewed once, for all concurrent callers').toBe(second)
  expect(first).not.toBe(`${token}\n`)
  const renewed = computer.credentials()[server.url]
  expect(first).toBe(`${renewed.access_token}\n`)
  expect(renewed.refresh_token).not.toBe(rest.refresh_token)
  expect(statSync(computer.file).mode & 0o777).toBe(0o600)
  expect((await server.call('GET', '/api/publishable-keys', { token: renewed.access_token })).status).toBe(200)

  expire()
  const other = 'https://inlay.example.com'
  writeFileSync(computer.file, JSON.stringify({ ...computer.credentials(), [other]: rest }), { mode: 0o644 })
  expect(await computer.run(`logout --url ${server.url}`)).toMatchObject({
    code: 0,
    stdout: `Signed out of ${server.url}\n`,
  })
  expect(computer.credentials(), 'other servers stay').toEqual({ [other]: rest })
  expect(statSync(computer.file).mode & 0o777).toBe(0o600)
  await shown.browser.open(address)
  expect(shown.browser.text, 'the browser is signed out too').toContain('Sign in to continue')
  for (const command of ['logout', 'token']) {
    expect(await computer.run(`${command} --url ${server.url}`)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `inlay: You aren't signed in to ${server.url}. Sign in with: npx inlay login --url ${server.url}\n`,
    })
  }
  const ended = { ...renewed, expires_at: new Date().toISOString() }
  writeFileSync(computer.file, JSON.stringify({ [server.url]: ended }))
  expect(await computer.run(`token --url ${server.url}`)).toMatchObject({
    code: 1,
    stdout: '',
    stderr: `inlay: Your sign-in has ended. Sign in again with: npx inlay login --url ${server.url}\n`,
  })
  expect(await computer.run(`logout --url ${server.url}`), 'signing out of an ended session succeeds').toMatchObject({
    code: 0,
  })
  expect(computer.credentials()).toEqual({})
})

test('a failed sign-in is explained in a sentence, and leaves nothing behind', async () => {
  const inlay = useUsedInstallation()
  const server = await inlay.start()
  const computer = useComputer(inlay)
  const login = computer.run(`login --url ${server.url}`)
  const address = await computer.opened()
  const back = new URL(new URL(address).searchParams.get('redirect_uri') ?? '')
  const forged = await fetch(`${back}?code=stolen&state=forged`)
  expect(forged.status, 'an unsolicited request changes nothing').toBe(404)
  expect((await signInWithBrowser(server, address, 'Cancel')).text).toContain('Sign-in failed')
  expect(await login).toMatchObject({ code: 1, stderr: 'inlay: Access was denied\n' })
  expect(existsSync(computer.file)).toBe(false)

  const refusals = await Promise.all(
    ['http://inlay.example.com', 'ftp://localhost', 'localhost:8787', 'https://a.example/path', 'x'].map((url) =>
      computer.run(`login --url ${url}`),
    ),
  )
  for (const { code, stderr } of refusals) {
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^inlay: --url must be an origin such as/),
    })
  }
  server.signal('SIGTERM')
  await server.finished
  const gone = await computer.run(`login --url ${server.url}`)
  expect(gone).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('Is an Inlay server running there?'),
  })
  expect(gone.stderr).not.toContain('    at ')
})

test('deletes the tokens even if the server does not respond', async () => {
  const inlay = useInstallation()
  const computer = useComputer(inlay)
  const url = 'http://127.0.0.1:1'
  mkdirSync(join(computer.file, '..'), { recursive: true })
  const entry = { client_id: 'c', access_token: 'a', refresh_token: 'r', expires_at: new Date().toISOString() }
  writeFileSync(computer.file, JSON.stringify({ [url]: entry }))
  expect(await computer.run(`token --url ${url}`)).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('Is an Inlay server running there?'),
  })
  const { code, stderr } = await computer.run(`logout --url ${url}`)
  expect(code).toBe(1)
  expect(stderr).toMatch(/^inlay: Deleted the tokens from .* They stay valid until they expire\.\n$/)
  expect(computer.credentials()).toEqual({})
})
