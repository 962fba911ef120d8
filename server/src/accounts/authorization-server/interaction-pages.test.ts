import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { allow, begin as beginAt, exchange } from '../../../test/oauth-client.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

const begin = (metadata?: object, parameters?: object, browser?: Browser) =>
  beginAt(app.url, metadata, parameters, browser)

test('logs what happened without secrets', async () => {
  const { config, attempt, browser } = await begin()
  const uid = browser.page?.url.pathname.split('/').at(-1) as string
  const answer = await allow(attempt, 'admin@demo.test')
  const { access_token, refresh_token } = await exchange(config, attempt, answer)
  expect(app.logged()).toContain('"operation":"oauth token","status":200')
  expect(app.logged()).toContain('"operation":"oauth authorize","status":303')
  for (const secret of [uid, answer.searchParams.get('code'), access_token, refresh_token, attempt.verifier]) {
    expect(app.logged()).not.toContain(secret)
  }
})

describe('pages', () => {
  const evil = '<script>alert(1)</script>"\'&'

  test('escape a client’s name', async () => {
    const { browser } = await begin({ client_name: evil })
    expect(browser.html).not.toContain('<script>')
    expect(browser.text).toContain(`to continue to <script>alert(1)</script>"'&`)
    await browser.press('member@demo.test')
    expect(browser.html).not.toContain('<script>')
    await browser.follow('Demo')
    expect(browser.html).not.toContain('<script>')
    expect(browser.text).toContain('Allow <script>alert(1)</script>"\'&?')
  })

  test('cannot be framed or cached, run no scripts except ours for passkeys, and only post to us and redirect to the client', async () => {
    const { browser } = await begin()
    for (const [step, scripts] of [
      ['', "; script-src 'self'"],
      ['admin@demo.test', ''],
    ] as const) {
      if (step) await browser.press(step)
      const { headers } = browser.page ?? { headers: new Headers() }
      expect(headers.get('content-security-policy')).toBe(
        `default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; font-src 'self'; form-action 'self' https://app.example.com; frame-ancestors 'none'; base-uri 'none'${scripts}`,
      )
      expect(headers.get('x-frame-options')).toBe('DENY')
      expect(headers.get('cache-control')).toBe('no-store')
    }
  })

  test.each(['https://evil.example.com', 'null', ''])('reject a form from the origin "%s"', async (origin) => {
    const { browser } = await begin()
    await browser.press('admin@demo.test', {}, { origin })
    expect(browser.page?.status).toBe(403)
    expect(browser.left).toBeUndefined()
  })

  test('accept a form once', async () => {
    const { browser } = await begin()
    await browser.press('admin@demo.test')
    const { action, fields } = browser.form('Allow')
    await browser.press('Allow')
    expect(browser.left).toBeDefined()
    await browser.press('Allow', fields)
    expect(browser.left).toBeUndefined()
    expect(action).toMatch(/\/consent$/)
    expect(browser.page?.status).toBe(400)
  })

  test('reject a form without its token, or with one of another visit', async () => {
    const [one, other] = [await begin(), await begin()]
    for (const token of ['', other.browser.form('Sign in').fields.token as string]) {
      const { browser } = await begin()
      await browser.press('admin@demo.test', { token })
      expect(browser.text).toContain('This page is no longer valid')
    }
    await one.browser.press('admin@demo.test')
    expect(one.browser.text).toContain('Allow Tool?')
  })

  test('work only in the browser that started', async () => {
    const { browser } = await begin()
    const stranger = await new Browser(app.url).open(browser.page?.url ?? '')
    expect(stranger.page?.status).toBe(400)
    expect(stranger.text).toContain('This page is no longer valid')
  })

  test('of several visits in one browser do not interfere', async () => {
    const browser = new Browser(app.url)
    const first = await begin({ client_name: 'First' }, {}, browser)
    const page = browser.page?.url as URL
    await begin({ client_name: 'Second' }, {}, browser)
    await browser.open(page)
    expect(browser.text).toContain('to continue to First')
    expect(await allow({ ...first.attempt, url: page }, 'admin@demo.test')).toBeDefined()
  })
})
