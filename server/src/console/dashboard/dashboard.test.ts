import { readdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import * as oauth from 'openid-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { claimsOf, exchange, introduce, prepare } from '../../../test/oauth-client.ts'
import { revokeGrant } from '../../accounts/access/records.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

/** What the dashboard's script does when it's opened. The redirect leads back to a page of this server. */
async function open(browser: Browser, parameters: Record<string, string> = {}) {
  const config = await introduce(app.url, 'inlay-dashboard')
  const attempt = await prepare(
    config,
    { redirect_uri: `${app.url}/signed-in`, scope: 'openid inlay', ...parameters },
    browser,
  )
  await browser.open(attempt.url)
  return { config, attempt }
}

async function signIn(email: string, parameters: Record<string, string> = {}, browser = new Browser(app.url)) {
  const { config, attempt } = await open(browser, parameters)
  if (browser.text.includes('to continue to')) await browser.press(email)
  const tokens = await exchange(config, attempt, browser.page?.url as URL)
  return { browser, config, tokens, claims: claimsOf(tokens.access_token) }
}

describe('the dashboard’s pages', () => {
  test.each(['/', '/signed-in', '/signed-out', '/organizations/new', '/o/demo', '/o/demo/usage', '/o/demo/keys/7'])(
    '%s is the dashboard, under a policy without inline scripts and styles',
    async (path) => {
      const response = await app.fetch(path)
      expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
      const policy = response.headers.get('content-security-policy') ?? ''
      expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
      expect(policy).toContain("frame-ancestors 'none'")
      expect(policy).not.toMatch(/unsafe|\*/)
      expect(response.headers.get('cache-control')).toBe('no-cache')
    },
  )

  test('load scripts and fonts that browsers keep', async () => {
    const [script] = /\/assets\/[\w.-]+\.js/.exec(await (await app.fetch('/')).text()) ?? []
    for (const [path, type] of [
      [script, 'text/javascript; charset=utf-8'],
      ['/assets/geist-latin-wght-normal.woff2', 'font/woff2'],
    ]) {
      const response = await app.fetch(String(path))
      expect([response.status, response.headers.get('content-type')]).toEqual([200, type])
      expect(response.headers.get('cache-control')).toContain('immutable')
    }
  })

  test.each(['/assets/none.js', '/assets/..%2Findex.html', '/assets/index.html', '/o', '/nothing'])(
    '%s is not found',
    async (path) => {
      expect((await app.fetch(path)).status).toBe(404)
    },
  )
})

test('the overview loads less than 180 KB of script', () => {
  const assets = new URL('../../../../dashboard/dist/assets/', import.meta.url)
  const html = readFileSync(new URL('../index.html', assets), 'utf8')
  const overview = readdirSync(assets).filter((name) => /^overview-.*\.js$/.test(name))
  const loaded = new Map<string, number>()
  const load = (name: string) => {
    if (loaded.has(name)) return
    const text = readFileSync(new URL(name, assets), 'utf8')
    loaded.set(name, gzipSync(text, { level: 9 }).length)
    for (const [, imported = ''] of text.matchAll(/(?:from|import)\s*"\.\/([\w.-]+\.js)"/g)) load(imported)
  }
  for (const [, name = ''] of html.matchAll(/assets\/([\w.-]+\.js)/g)) load(name)
  for (const name of overview) load(name)
  const total = [...loaded.values()].reduce((sum, size) => sum + size, 0)
  expect(total).toBeLessThan(180 * 1024)
  expect(total, 'it was measured at all').toBeGreaterThan(80 * 1024)
})

describe('the dashboard’s sign-in', () => {
  test('needs no consent, and works in the organization that was asked for', async () => {
    const { claims, tokens } = await signIn('member@demo.test', { organization: 'other' })
    expect(claims).toMatchObject({ org_id: await app.organization('other'), client_id: 'inlay-dashboard' })
    const { status } = await app.request('GET', '/publishable-keys', { token: tokens.access_token })
    expect(status).toBe(200)
  })

  test('is silent with a session, and remembers the organization', async () => {
    const { browser, claims } = await signIn('member@demo.test', { organization: 'demo' })
    const again = await signIn('member@demo.test', { prompt: 'none' }, browser)
    expect(again.claims.org_id).toBe(claims.org_id)
    const other = await signIn('member@demo.test', { prompt: 'none', organization: 'other' }, browser)
    expect(other.claims.org_id).toBe(await app.organization('other'))
    expect((await signIn('member@demo.test', { prompt: 'none' }, browser)).claims.org_id).toBe(other.claims.org_id)
  })

  test('is refused silently without a session', async () => {
    const browser = new Browser(app.url)
    await open(browser, { prompt: 'none' })
    expect(browser.page?.url.searchParams.get('error')).toBe('login_required')
  })

  test.each([
    ['of others', 'admin@demo.test', { organization: 'other' }],
    ['that doesn’t exist', 'admin@demo.test', { organization: 'nowhere' }],
    ['of one’s own', 'nobody@demo.test', {}],
  ])('without an organization %s gets a token for none', async (_, email, parameters) => {
    const { claims, tokens } = await signIn(email, parameters as Record<string, string>)
    expect(claims.org_id).toBeUndefined()
    expect((await app.request('GET', '/users/me', { token: tokens.access_token })).status).toBe(200)
    expect((await app.request('GET', '/publishable-keys', { token: tokens.access_token })).status).toBe(403)
  })

  test('can be renewed until its grant is revoked', async () => {
    const { config, tokens, claims } = await signIn('admin@demo.test')
    const next = await oauth.refreshTokenGrant(config, String(tokens.refresh_token))
    expect(claimsOf(next.access_token).org_id).toBe(claims.org_id)
    await revokeGrant(app.service, claims.grant_id)
    await expect(oauth.refreshTokenGrant(config, String(next.refresh_token))).rejects.toMatchObject({
      error: 'invalid_grant',
    })
  })

  test.each([
    ['another page', { redirect_uri: 'https://evil.example/signed-in' }],
    ['another page of this server', { redirect_uri: 'URL/oauth/logout' }],
    ['another port', { redirect_uri: 'http://localhost:1/signed-in' }],
  ])('never returns to %s', async (_, { redirect_uri }) => {
    const browser = new Browser(app.url)
    await open(browser, { redirect_uri: redirect_uri.replace('URL', app.url) })
    expect([browser.left, browser.page?.status]).toEqual([undefined, 400])
  })

  test('can’t be registered by others', async () => {
    const response = await app.fetch('/oauth/register', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ client_id: 'inlay-dashboard', redirect_uris: ['https://evil.example/'] }),
    })
    expect(((await response.json()) as { client_id?: string }).client_id).not.toBe('inlay-dashboard')
  })
})
