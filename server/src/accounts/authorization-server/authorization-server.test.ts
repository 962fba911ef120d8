import { request } from 'node:http'
import * as oauth from 'openid-client'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { allow, claimsOf, exchange, nativeUri, obtain, prepare, register, webUri } from '../../../test/oauth-client.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

describe('discovery', () => {
  test.each(
    ['oauth-authorization-server', 'openid-configuration'].flatMap((name) =>
      ['', '/oauth', '/api', '/mcp'].map((below) => `/.well-known/${name}${below}`),
    ),
  )('%s describes the server', async (path) => {
    const response = await fetch(`${app.url}${path}`, { headers: { 'x-forwarded-host': 'evil.example.com' } })
    expect(response.headers.get('access-control-allow-origin')).toBe('*')
    expect(await response.json()).toMatchObject({
      issuer: app.url,
      authorization_endpoint: `${app.url}/oauth/authorize`,
      token_endpoint: `${app.url}/oauth/token`,
      revocation_endpoint: `${app.url}/oauth/revoke`,
      registration_endpoint: `${app.url}/oauth/register`,
      jwks_uri: `${app.url}/oauth/jwks`,
      code_challenge_methods_supported: ['S256'],
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      scopes_supported: ['openid', 'offline_access', 'inlay'],
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
    })
  })

  test('does not expose endpoints that it does not offer', async () => {
    for (const path of ['/oauth/introspect', '/oauth/me', '/oauth/device', '/oauth/request', '/oauth/session/end']) {
      expect((await fetch(`${app.url}${path}`)).status, path).toBe(404)
    }
  })
})

describe('an authorization request', () => {
  test('is redirected back with the issuer and the state', async () => {
    const config = await register(app.url)
    const answer = await allow(await prepare(config), 'admin@demo.test')
    expect(Object.fromEntries(answer.searchParams)).toEqual({
      code: expect.any(String),
      state: 'state',
      iss: app.url,
    })
  })

  test.each([
    [`${webUri}/`],
    [`${webUri}?a=b`],
    [`${webUri}/../other`],
    ['https://app.example.com:443/callback'],
    ['https://APP.example.com/callback'],
    ['http://app.example.com/callback'],
    ['https://evil.example.com/callback'],
    ['https://app.example.com/callback#x'],
    ['https://app.example.com@evil.example.com/callback'],
    [undefined],
  ])('with the redirect URI %s is not redirected', async (redirect_uri) => {
    const { browser, url } = await prepare(await register(app.url), { redirect_uri })
    await browser.open(url)
    expect(browser.left).toBeUndefined()
    expect(browser.page?.status).toBe(400)
    expect(browser.page?.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
  })

  test('with another path on the loopback address has another redirect URI', async () => {
    const config = await register(app.url, { redirect_uris: [nativeUri] })
    const { browser, url } = await prepare(config, { redirect_uri: 'http://127.0.0.1:5000/other' })
    await browser.open(url)
    expect(browser.left).toBeUndefined()
  })

  test.each<[string, Record<string, string | undefined>, string]>([
    ['without PKCE', { code_challenge: undefined, code_challenge_method: undefined }, 'invalid_request'],
    ['with plain PKCE', { code_challenge_method: 'plain' }, 'invalid_request'],
    ['without a PKCE method', { code_challenge_method: undefined }, 'invalid_request'],
    ['for an unknown resource', { resource: 'https://elsewhere.example.com/' }, 'invalid_target'],
    ['for a token in the URL', { response_type: 'token' }, 'invalid_request'],
    ['for an ID token in the URL', { response_type: 'id_token', scope: 'openid' }, 'invalid_request'],
    ['with prompt=none and no session', { prompt: 'none' }, 'login_required'],
  ])('%s is refused', async (_, parameters, error) => {
    const { browser, url } = await prepare(await register(app.url), parameters)
    await browser.open(url)
    expect(browser.left?.searchParams.get('error') ?? browser.left?.hash).toContain(error)
    expect(browser.left?.href).toContain(encodeURIComponent(app.url))
  })

  test('of a client with a secret needs PKCE too', async () => {
    const config = await register(app.url, { token_endpoint_auth_method: 'client_secret_basic' })
    const none = { code_challenge: undefined, code_challenge_method: undefined }
    const { browser, url } = await prepare(config, none)
    await browser.open(url)
    expect(browser.left?.searchParams.get('error')).toBe('invalid_request')
  })

  test("gets responses with the public URL, regardless of the request's headers", async () => {
    const { url } = await prepare(await register(app.url))
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { 'x-forwarded-host': 'evil.example.com', 'x-forwarded-proto': 'https' },
    })
    expect(response.headers.get('location')).toMatch(/^\/oauth\/interaction\//)
    expect(response.headers.get('set-cookie')).not.toContain('evil')
  })
})

describe('tokens', () => {
  test.each([
    ['the API', '/api', ['/api']],
    ['the MCP endpoint', '/mcp', ['/mcp']],
    ['all resources if none is named', undefined, ['/api', '/mcp']],
  ])('are for %s', async (_, resource, audience) => {
    const config = await register(app.url)
    const parameters: Record<string, string> = resource ? { resource: `${app.url}${resource}` } : {}
    const { access_token, ...rest } = await obtain(config, 'admin@demo.test', parameters)
    expect(rest).toEqual({ token_type: 'bearer', expires_in: 3600, scope: 'inlay', refresh_token: expect.any(String) })
    const header = JSON.parse(Buffer.from(access_token.split('.')[0] ?? '', 'base64url').toString())
    expect(header).toEqual({ alg: 'EdDSA', typ: 'at+jwt', kid: expect.any(String) })
    const claims = claimsOf(access_token)
    expect({ ...claims, aud: [claims.aud].flat() }).toEqual({
      iss: app.url,
      aud: audience.map((path) => `${app.url}${path}`),
      sub: expect.stringMatching(/^[0-9a-f-]{36}$/),
      org_id: await app.organization('demo'),
      client_id: config.clientMetadata().client_id,
      scope: 'inlay',
      grant_id: expect.any(String),
      jti: expect.any(String),
      iat: expect.any(Number),
      exp: claims.iat + 3600,
    })
    const { status } = await app.request('GET', '/organizations/current/members', { token: access_token })
    expect(status).toBe(audience.includes('/api') ? 200 : 401)
  })

  test.each([
    ['in both requests', '/', '/'],
    ['in the first request', '/', ''],
    ['in the second request', '', '/'],
  ])('contain the resource without the trailing slash that a client sends %s', async (_, first, second) => {
    const config = await register(app.url)
    const attempt = await prepare(config, { resource: `${app.url}/mcp${first}` })
    const answer = await allow(attempt, 'admin@demo.test')
    const checks = { pkceCodeVerifier: attempt.verifier, expectedState: 'state' }
    const resource = `${app.url}/mcp${second}`
    const tokens = await oauth.authorizationCodeGrant(config, answer, checks, { resource })
    const fresh = await oauth.refreshTokenGrant(config, String(tokens.refresh_token), { resource })
    for (const { access_token } of [tokens, fresh]) expect(claimsOf(access_token).aud).toBe(`${app.url}/mcp`)
  })

  test.each(['/mcp//', '/mcp/other', '/MCP'])('are not issued for the resource %s', async (path) => {
    const { browser, url } = await prepare(await register(app.url), { resource: `${app.url}${path}` })
    await browser.open(url)
    expect(browser.left?.searchParams.get('error')).toBe('invalid_target')
  })

  test('without our scope are refused, with the missing scope', async () => {
    const { access_token } = await obtain(await register(app.url), 'admin@demo.test', { scope: 'openid' })
    const { status, headers, body } = await app.request('GET', '/users/me', { token: access_token })
    expect({ status, code: body.data.code }).toEqual({ status: 403, code: 'ACCESS_DENIED' })
    expect(headers.get('www-authenticate')).toMatch(/^Bearer error="insufficient_scope", scope="inlay", resource_met/)
  })

  test('an ID token is not accepted as an access token', async () => {
    const { id_token } = await obtain(await register(app.url), 'admin@demo.test', { scope: 'openid inlay' })
    expect((await app.request('GET', '/users/me', { token: String(id_token) })).status).toBe(401)
  })

  test('a code does not work for another client, verifier or resource', async () => {
    const config = await register(app.url)
    const attempt = await prepare(config, { resource: `${app.url}/api` })
    const answer = await allow(attempt, 'admin@demo.test')
    const invalid = { error: 'invalid_grant' }
    await expect(exchange(await register(app.url), attempt, answer)).rejects.toMatchObject(invalid)
    const otherVerifier = { ...attempt, verifier: oauth.randomPKCECodeVerifier() }
    await expect(exchange(config, otherVerifier, answer)).rejects.toMatchObject(invalid)
    const wrongResource = oauth.authorizationCodeGrant(
      config,
      answer,
      { pkceCodeVerifier: attempt.verifier, expectedState: 'state' },
      { resource: `${app.url}/mcp` },
    )
    await expect(wrongResource).rejects.toMatchObject({ error: 'invalid_target' })
  })
})

describe('DNS rebinding', () => {
  const statusFor = (host: string, path: string, local = app.local) =>
    new Promise<number | undefined>((resolve, reject) => {
      const sent = request(`${local}${path}`, { headers: { host } }, (response) => {
        response.resume()
        resolve(response.statusCode)
      })
      sent.on('error', reject).end()
    })

  test.each(['evil.example.com', 'evil.example.com:8787', 'localhost.evil.example.com', '127.0.0.1.evil.example.com'])(
    'is refused for the host %s',
    async (host) => {
      for (const path of ['/oauth/authorize', '/oauth/interaction/x', '/oauth/logout', '/oauth/token']) {
        expect({ path, status: await statusFor(host, path) }).toEqual({ path, status: 403 })
      }
    },
  )

  test.each(['localhost', '127.0.0.1:1', '[::1]:8787'])('is not assumed for the host %s', async (host) => {
    expect(await statusFor(host, '/oauth/logout')).toBe(200)
  })

  test('is not checked behind TLS, where a proxy may send any host', async () => {
    const production = await startHttpService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
    onTestFinished(() => production.close())
    expect(await statusFor('upstream', '/oauth/logout', production.local)).toBe(200)
  })
})

test('binds cookies to the host and to TLS in production', async () => {
  const production = await startHttpService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
  onTestFinished(() => production.close())
  const registered = await fetch(`${production.local}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token_endpoint_auth_method: 'none', redirect_uris: [webUri] }),
  })
  const { client_id } = (await registered.json()) as { client_id: string }
  const query = new URLSearchParams({
    client_id,
    redirect_uri: webUri,
    response_type: 'code',
    code_challenge: 'a'.repeat(43),
    code_challenge_method: 'S256',
  })
  const response = await fetch(`${production.local}/oauth/authorize?${query}`, { redirect: 'manual' })
  const cookies = response.headers.getSetCookie()
  expect(cookies.length).toBeGreaterThan(0)
  for (const cookie of cookies) {
    expect(cookie).toMatch(/^__(Host|Secure)-inlay-/)
    expect(cookie).toMatch(/; secure/i)
    expect(cookie).toMatch(/; httponly/i)
    expect(cookie).toMatch(/; samesite=lax/i)
    expect(cookie).not.toMatch(/domain=/i)
    if (cookie.startsWith('__Host-')) expect(cookie).toMatch(/; path=\/(;|$)/)
  }
})
