import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { inject } from 'light-my-request'
import * as oauth from 'openid-client'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { useClientDocument, useHttps } from '../../../test/https-server.ts'
import {
  allow,
  claimsOf,
  exchange,
  introduce,
  nativeUri,
  obtain,
  prepare,
  register,
  webUri,
} from '../../../test/oauth-client.ts'
import { createApp } from '../../app.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

describe('registration', () => {
  test('accepts a client without a secret', async () => {
    const metadata = (await register(app.url)).clientMetadata()
    expect(metadata).toMatchObject({
      client_id: expect.any(String),
      client_name: 'Tool',
      redirect_uris: [webUri],
      grant_types: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: 'none',
      application_type: 'web',
    })
    expect(metadata).not.toHaveProperty('client_secret')
  })

  test('is allowed for pages of any origin', async () => {
    const headers = { origin: 'https://tool.example.com', 'access-control-request-method': 'POST' }
    const preflight = await fetch(`${app.url}/oauth/register`, { method: 'OPTIONS', headers })
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('access-control-allow-origin')).toBe('*')
    const answer = await fetch(`${app.url}/oauth/register`, { method: 'POST', body: '{}', headers })
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
  })

  test('accepts a client with a secret, which it must use', async () => {
    const config = await register(app.url, { token_endpoint_auth_method: 'client_secret_basic' })
    const { client_id, client_secret } = config.clientMetadata()
    expect(client_secret).toMatch(/^[\w-]{43,}$/)
    const attempt = await prepare(config)
    const answer = await allow(attempt, 'admin@demo.test')
    const guess = new oauth.Configuration(config.serverMetadata(), client_id, undefined, oauth.ClientSecretBasic('no'))
    oauth.allowInsecureRequests(guess)
    await expect(exchange(guess, attempt, answer)).rejects.toMatchObject({
      cause: [{ scheme: 'basic', parameters: { error: 'invalid_client' } }],
    })
    const known = new oauth.Configuration(
      config.serverMetadata(),
      client_id,
      undefined,
      oauth.ClientSecretBasic(String(client_secret)),
    )
    oauth.allowInsecureRequests(known)
    expect(await exchange(known, attempt, answer)).toHaveProperty('access_token')
  })

  test('lets native programs choose their port later, with and without application_type', async () => {
    const config = await register(app.url, { redirect_uris: [nativeUri] })
    expect(config.clientMetadata().application_type).toBe('native')
    const attempt = await prepare(config, { redirect_uri: 'http://127.0.0.1:49152/callback' })
    const answer = await allow(attempt, 'admin@demo.test')
    expect(answer.href).toMatch(/^http:\/\/127\.0\.0\.1:49152\/callback\?code=/)
    expect(await exchange(config, attempt, answer)).toHaveProperty('refresh_token')
  })

  test.each([
    [['http://app.example.com/callback'], 'invalid_redirect_uri'],
    [[webUri, 'javascript:alert(1)'], 'invalid_redirect_uri'],
    [['https://app.example.com/#x'], 'invalid_redirect_uri'],
    [Array.from({ length: 11 }, (_, n) => `${webUri}/${n}`), 'invalid_redirect_uri'],
    [[webUri.padEnd(1_001, 'x')], 'invalid_redirect_uri'],
    [[], 'invalid_redirect_uri'],
    [undefined, 'invalid_redirect_uri'],
  ])('rejects the redirect URIs %j', async (redirect_uris, error) => {
    const response = await fetch(`${app.url}/oauth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token_endpoint_auth_method: 'none', redirect_uris }),
    })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error })
  })

  test('removes values that this server does not support', async () => {
    const { client_id, ...metadata } = await registerRaw({
      client_name: null,
      client_uri: null,
      logo_uri: null,
      jwks_uri: null,
      token_endpoint_auth_method: 'none',
      redirect_uris: [webUri],
      grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
      response_types: ['code', 'token'],
      scope: 'inlay profile mcp:tools',
    })
    expect(metadata).toMatchObject({
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      scope: 'inlay',
    })
    expect(Object.values(metadata)).not.toContain(null)
    expect(metadata).not.toHaveProperty('client_name')
  })

  test('accepts a client that names only unknown scopes, without a scope', async () => {
    const request = { token_endpoint_auth_method: 'none', redirect_uris: [webUri], scope: 'mcp:tools profile' }
    expect(await registerRaw(request)).not.toHaveProperty('scope')
  })

  test('treats null as the default', async () => {
    const request = { token_endpoint_auth_method: null, grant_types: null, response_types: null, scope: null }
    expect(await registerRaw({ ...request, redirect_uris: [webUri] })).toMatchObject({
      token_endpoint_auth_method: 'client_secret_basic',
      client_secret: expect.any(String),
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    })
  })

  test.each([
    ['implicit', { grant_types: ['implicit'], response_types: ['id_token'] }],
    ['client credentials', { grant_types: ['client_credentials'] }],
  ])('rejects %s', async (_, metadata) => {
    await expect(register(app.url, metadata)).rejects.toMatchObject({ error: 'invalid_client_metadata' })
  })
})

async function registerRaw(metadata: object): Promise<Record<string, unknown>> {
  const response = await fetch(`${app.url}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(metadata),
  })
  expect(response.status).toBe(201)
  return (await response.json()) as Record<string, unknown>
}

describe('a registration is limited:', () => {
  test.each([
    ['a name of 100 characters', { client_name: 'n'.repeat(100) }],
    ['a name in any script', { client_name: 'Werkzeug für 日本語 🛠️' }],
    ['no name', { client_name: undefined }],
    ['ten redirect URIs', { redirect_uris: Array.from({ length: 10 }, (_, n) => `${webUri}/${n}`) }],
    ['a redirect URI of 1000 characters', { redirect_uris: [webUri.padEnd(1_000, 'x')] }],
  ])('%s is accepted', async (_, metadata) => {
    expect((await register(app.url, metadata)).clientMetadata()).toMatchObject(JSON.parse(JSON.stringify(metadata)))
  })

  test.each([
    ['a name of 101 characters', { client_name: 'n'.repeat(101) }, 'client_name must not be longer than 100'],
    ['a name of 54 000 characters', { client_name: 'n'.repeat(54_000) }, 'must not be larger than 8192 bytes'],
    ['a name with a bidirectional control', { client_name: 'Tool \u202e' }, 'client_name is not valid'],
    ['a name with an invisible character', { client_name: 'To\u200bol' }, 'client_name is not valid'],
    ['large metadata', { contacts: Array.from({ length: 400 }, (_, n) => `person-${n}@example.com`) }, '8192 bytes'],
    [
      'many addresses after logout',
      { post_logout_redirect_uris: Array.from({ length: 11 }, (_, n) => `${webUri}/${n}`) },
      'post_logout_redirect_uris must not contain more than 10 URIs',
    ],
  ])('%s is rejected', async (_, metadata, description) => {
    await expect(register(app.url, metadata)).rejects.toMatchObject({
      error: 'invalid_client_metadata',
      error_description: expect.stringContaining(description),
    })
  })

  test('one address can register 100 clients an hour, and others are not affected', async () => {
    const proxied = await useHttpService({ INLAY_TRUSTED_PROXIES: '127.0.0.0/8, ::1/128' })
    const registerFrom = (address: string) =>
      fetch(`${proxied.url}/oauth/register`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-forwarded-for': address },
        body: JSON.stringify({ token_endpoint_auth_method: 'none', redirect_uris: [webUri] }),
      })
    const answers = await Promise.all(Array.from({ length: 105 }, () => registerFrom('198.51.100.1')))
    const statuses = answers.map(({ status }) => status)
    expect(statuses.filter((status) => status === 201)).toHaveLength(100)
    const refused = answers[statuses.indexOf(429)]
    expect(refused?.headers.get('retry-after')).toBe('3600')
    expect(await refused?.json()).toMatchObject({ error: 'temporarily_unavailable' })
    expect((await registerFrom('198.51.100.2')).status).toBe(201)
  })
})

describe('an unauthenticated visitor', () => {
  test('cannot store a large authorization request', async () => {
    const attempt = await prepare(await register(app.url), { state: 'x'.repeat(7_000) })
    await attempt.browser.open(attempt.url)
    expect(attempt.browser.left?.searchParams.get('error')).toBe('invalid_request')
  })

  test('gets 600 sign-in pages a minute for each address', async () => {
    const limited = await useHttpService({ INLAY_TRUSTED_PROXIES: '127.0.0.0/8, ::1/128' })
    const open = (address: string) =>
      limited.fetch('/oauth/logout', { headers: { 'x-forwarded-for': address } }).then(({ status }) => status)
    const statuses = await Promise.all(Array.from({ length: 605 }, () => open('198.51.100.1')))
    expect(statuses.filter((status) => status === 429)).toHaveLength(5)
    expect(await open('198.51.100.2')).toBe(200)
  })

  test('cannot make the server store a client assertion for longer than an hour', async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
    const jwks = { keys: [await exportJWK(publicKey)] }
    const metadata = { token_endpoint_auth_method: 'private_key_jwt', jwks }
    const { client_id } = (await register(app.url, metadata as never)).clientMetadata()
    const authenticate = async (lifetime: string) => {
      const assertion = await new SignJWT()
        .setProtectedHeader({ alg: 'ES256' })
        .setIssuer(client_id)
        .setSubject(client_id)
        .setAudience(app.url)
        .setJti(lifetime)
        .setIssuedAt()
        .setExpirationTime(lifetime)
        .sign(privateKey)
      const body = new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token: 'x',
        client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        client_assertion: assertion,
      })
      const answer = await fetch(`${app.url}/oauth/token`, { method: 'POST', body })
      return ((await answer.json()) as { error: string }).error
    }
    expect(await authenticate('50 minutes')).toBe('invalid_grant')
    expect(await authenticate('2 hours')).toBe('invalid_client')
  })
})

test('in production, strangers’ addresses of keys can’t reach a private network that the operator has allowed', async () => {
  let asked = 0
  const inside = createServer((_, response) => {
    asked += 1
    response.end('{"keys":[]}')
  }).listen(0, '127.0.0.1')
  await once(inside, 'listening')
  onTestFinished(() => void inside.close())
  const address = `http://127.0.0.1:${(inside.address() as AddressInfo).port}/jwks`
  const { privateKey } = await generateKeyPair('ES256')

  /** Whether the token endpoint asked for the keys of a client that a stranger registered. */
  async function isAsked(env: Record<string, string>): Promise<boolean> {
    const server = await useHttpService({ INLAY_ALLOWED_PRIVATE_NETWORKS: '127.0.0.0/8', ...env })
    const issuer = env.INLAY_PUBLIC_URL ?? server.url
    const registered = await fetch(`${server.local}/oauth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        redirect_uris: [webUri],
        token_endpoint_auth_method: 'private_key_jwt',
        token_endpoint_auth_signing_alg: 'ES256',
        jwks_uri: address,
      }),
    })
    const { client_id } = (await registered.json()) as { client_id: string }
    const assertion = await new SignJWT()
      .setProtectedHeader({ alg: 'ES256' })
      .setIssuer(client_id)
      .setSubject(client_id)
      .setAudience(issuer)
      .setJti('once')
      .setIssuedAt()
      .setExpirationTime('1 minute')
      .sign(privateKey)
    asked = 0
    await fetch(`${server.local}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token: 'x',
        client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        client_assertion: assertion,
      }),
    })
    return asked > 0
  }
  expect(await isAsked({}), 'in development, for programs on this computer').toBe(true)
  expect(await isAsked({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })).toBe(false)
})

async function useHttpService(env: Record<string, string>): Promise<HttpService> {
  const service = await startHttpService(env)
  onTestFinished(() => service.close())
  return service
}

describe('a client with a metadata document', () => {
  test('signs users in and is shown with its host', async () => {
    const id = await useClientDocument((client_id) => ({
      client_id,
      client_name: 'Tool',
      redirect_uris: [webUri],
      token_endpoint_auth_method: 'none',
    }))
    const config = await introduce(app.url, id)
    const attempt = await prepare(config)
    await attempt.browser.open(attempt.url)
    await attempt.browser.press('admin@demo.test')
    expect(attempt.browser.text).toContain(`App Tool (${new URL(id).host})`)
    const tokens = await exchange(config, attempt, await allow(attempt, 'admin@demo.test'))
    expect(claimsOf(tokens.access_token)).toMatchObject({ client_id: id })
    expect(await oauth.refreshTokenGrant(config, String(tokens.refresh_token))).toHaveProperty('access_token')
  })

  test.each<[string, (id: string) => object]>([
    ['names another URL', () => ({ client_id: 'https://other.example.com/', redirect_uris: [webUri] })],
    ['holds a secret', (client_id) => ({ client_id, redirect_uris: [webUri], client_secret: 'x' })],
    ['has a misleading name', (client_id) => ({ client_id, redirect_uris: [webUri], client_name: 'To\u200bol' })],
    ['has an unsafe redirect URI', (client_id) => ({ client_id, redirect_uris: ['http://app.example.com/callback'] })],
  ])('is refused when its document %s', async (_, metadata) => {
    const attempt = await prepare(await introduce(app.url, await useClientDocument(metadata)))
    await attempt.browser.open(attempt.url)
    expect(attempt.browser.page?.status).toBe(400)
    expect(attempt.browser.left).toBeUndefined()
  })

  test.each(['https://10.0.0.1/client.json', 'https://169.254.169.254/client.json', 'https://[fd00::1]/client.json'])(
    'is not fetched from %s, and no connection is made',
    async (id) => {
      const attempt = await prepare(await introduce(app.url, id))
      await attempt.browser.open(attempt.url)
      expect(attempt.browser.page?.status).toBe(400)
      expect(attempt.browser.text).toContain('invalid_client')
      expect(app.logged()).toContain(`"address":"${id}","reason":"blocked_address"`)
    },
  )
})

describe('while the document of a client with tokens is unavailable', () => {
  type Mode = 'up' | 'away' | 'failing' | 'withdrawn'

  /** Tokens of a client with a document, and a node with the same stores that hasn't fetched the document yet. */
  async function signInByDocument() {
    let mode: Mode = 'up'
    const origin = await useHttps((request, response) => {
      if (mode === 'away') return request.socket.destroy()
      const status = { up: 200, failing: 503, withdrawn: 404 }[mode]
      const body = { client_id: id, redirect_uris: [webUri], token_endpoint_auth_method: 'none' }
      return response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
    const id = `${origin}/client.json`
    const tokens = await obtain(await introduce(app.url, id), 'admin@demo.test')
    const other = await createApp(app.service)
    const post = async (path: string, form: Record<string, string>) => {
      const headers = { 'content-type': 'application/x-www-form-urlencoded' }
      const payload = String(new URLSearchParams({ client_id: id, ...form }))
      return inject(other.listener as never, { method: 'POST', url: path, headers, payload })
    }
    const refresh = async () => {
      const answer = await post('/oauth/token', {
        grant_type: 'refresh_token',
        refresh_token: String(tokens.refresh_token),
      })
      return answer.json() as Record<string, unknown>
    }
    const token = String(tokens.refresh_token)
    return { id, other, refresh, revoke: () => post('/oauth/revoke', { token }), set: (next: Mode) => (mode = next) }
  }

  test.each<Mode>(['away', 'failing'])('the client can refresh them: %s', async (mode) => {
    const { refresh, set } = await signInByDocument()
    set(mode)
    expect(await refresh()).toHaveProperty('access_token')
  })

  test('the client can revoke them', async () => {
    const { refresh, revoke, set } = await signInByDocument()
    set('away')
    expect((await revoke()).statusCode).toBe(200)
    expect(await refresh()).toMatchObject({ error: 'invalid_grant' })
  })

  test('the client gets no new tokens once its document is deleted', async () => {
    const { refresh, set } = await signInByDocument()
    set('withdrawn')
    expect(await refresh()).toMatchObject({ error: 'invalid_client' })
  })

  test('users cannot sign in with the client', async () => {
    const { id, other, set } = await signInByDocument()
    set('away')
    const { url } = await prepare(await introduce(app.url, id))
    const answer = await inject(other.listener as never, { method: 'GET', url: url.pathname + url.search })
    expect(answer.statusCode).toBe(400)
    expect(answer.body).toContain('invalid_client')
  })

  test('nothing is stored for a client that no user has allowed', async () => {
    const id = await useClientDocument((client_id) => ({
      client_id,
      redirect_uris: [webUri],
      token_endpoint_auth_method: 'none',
    }))
    const body = new URLSearchParams({ grant_type: 'refresh_token', client_id: id, refresh_token: 'made-up' })
    expect((await fetch(`${app.url}/oauth/token`, { method: 'POST', body })).status).toBe(400)
    expect(await app.service.kv.get(`oauth:client-document:${fingerprint(id)}`)).toBeUndefined()
  })
})

describe('client metadata documents', () => {
  const isOffered = async ({ url }: HttpService) => {
    const response = await fetch(`${url}/.well-known/oauth-authorization-server`)
    const { client_id_metadata_document_supported } = (await response.json()) as Record<string, unknown>
    return client_id_metadata_document_supported === true
  }
  /** Status of the page that users of this client see. */
  async function signInWith({ url }: HttpService, id: string): Promise<number | undefined> {
    const attempt = await prepare(await introduce(url, id))
    await attempt.browser.open(attempt.url)
    return attempt.browser.page?.status
  }
  const useGoodDocument = () =>
    useClientDocument((client_id) => ({ client_id, redirect_uris: [webUri], token_endpoint_auth_method: 'none' }))
  /** Every connection fails, as on a network without egress. */
  const useUnreachable = async () => `${await useHttps((request) => request.socket.destroy())}/client.json`

  test('are no longer offered once a fetch fails, and are again once one succeeds', async () => {
    const own = await useHttpService({})
    expect(await isOffered(own)).toBe(true)
    expect(await signInWith(own, await useUnreachable())).toBe(400)
    expect(await isOffered(own)).toBe(false)
    expect(await register(own.url), 'clients register instead').toBeDefined()
    expect(await signInWith(own, await useGoodDocument())).toBe(200)
    expect(await isOffered(own)).toBe(true)
  })

  test('stay on offer when a stranger names an unreachable host, if others were reached', async () => {
    const own = await useHttpService({})
    expect(await signInWith(own, await useGoodDocument())).toBe(200)
    expect(await signInWith(own, await useUnreachable())).toBe(400)
    expect(await isOffered(own)).toBe(true)
  })

  test('stay on offer when a client names an address that is never fetched', async () => {
    const own = await useHttpService({})
    expect(await signInWith(own, 'https://10.0.0.1/client.json')).toBe(400)
    expect(await isOffered(own)).toBe(true)
  })

  test('are always offered if the operator turns them on', async () => {
    const own = await useHttpService({ INLAY_CLIENT_METADATA_DOCUMENTS: 'on' })
    expect(await signInWith(own, await useUnreachable())).toBe(400)
    expect(await isOffered(own)).toBe(true)
  })

  test('are neither offered nor fetched if the operator turns them off', async () => {
    const own = await useHttpService({ INLAY_CLIENT_METADATA_DOCUMENTS: 'off' })
    let requests = 0
    const origin = await useHttps((_, response) => {
      requests += 1
      response.end()
    })
    expect(await isOffered(own)).toBe(false)
    expect(await signInWith(own, `${origin}/client.json`)).toBe(400)
    expect(requests).toBe(0)
  })
})
