import { generateKeyPairSync } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import {
  type IdentityProviderSettings,
  InvalidIdentityProvider,
  idpAliases,
  idpTypes,
  trustedIssuer,
} from './issuers.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const nothing = { idp_type: null, allowed_audiences: null, idp_domain: null, idp_issuer: null, allowed_domains: [] }
const path = '/identity-providers/config'
const patch = (body: unknown) => app.request('PATCH', path, { token, body })
const read = async () => (await app.request('GET', path, { token })).body

describe('the configuration', () => {
  beforeEach(() => patch(nothing))

  test('has all five fields even if nothing was ever set', async () => {
    const other = await app.tokenFor('admin@other.test', 'other')
    expect((await app.request('GET', path, { token: other })).body).toEqual(nothing)
  })

  test.each([
    [{ idp_type: 'okta', idp_domain: 'acme.okta.com' }],
    [{ allowed_audiences: ['client-1', 'client-2'] }],
    [{ allowed_audiences: [] }],
    [{ idp_type: 'custom_oidc', idp_issuer: 'https://id.example.com/realms/acme' }],
    [{ allowed_domains: ['https://app.example.com', 'https://*.preview.example.com'] }],
    [{}],
  ])('accepts %j and keeps the other fields', async (changes) => {
    await patch({ idp_domain: 'kept.example.com', allowed_audiences: ['kept'] })
    const { status, body } = await patch(changes)
    expect(status).toBe(200)
    expect(body).toEqual({ ...nothing, idp_domain: 'kept.example.com', allowed_audiences: ['kept'], ...changes })
    expect(await read()).toEqual(body)
  })

  test('is cleared by null, field by field', async () => {
    await patch({ idp_type: 'okta', idp_domain: 'acme.okta.com', allowed_audiences: ['a'] })
    expect((await patch({ idp_type: null, idp_domain: null, allowed_audiences: null })).body).toEqual(nothing)
  })

  test('stores origins in canonical form, without duplicates', async () => {
    const { body } = await patch({ allowed_domains: ['https://App.Example.com:443', 'https://app.example.com'] })
    expect(body.allowed_domains).toEqual(['https://app.example.com'])
  })

  test.each([...idpTypes, ...Object.keys(idpAliases)])('accepts the type %s', async (idp_type) => {
    const { body } = await patch({ idp_type, idp_domain: 'acme.example.com', idp_issuer: 'https://id.example.com' })
    const isFirebase = [idp_type, idpAliases[idp_type as keyof typeof idpAliases]].includes('firebase')
    if (isFirebase) expect(body.data, 'whose domain is a project id').toMatchObject({ field: 'idp_domain' })
    else expect(body.idp_type).toBe(idpAliases[idp_type as keyof typeof idpAliases] ?? idp_type)
  })

  test.each([
    [{ idp_type: 'idp_vendor_9' }, 'idp_type'],
    [{ idp_type: '' }, 'idp_type'],
    [{ idp_type: 1 }, 'idp_type'],
    [{ allowed_audiences: 'x' }, 'allowed_audiences'],
    [{ allowed_audiences: [''] }, 'allowed_audiences.0'],
    [{ allowed_audiences: [1] }, 'allowed_audiences.0'],
    [{ idp_domain: '' }, 'idp_domain'],
    [{ idp_issuer: 'not a url' }, 'idp_issuer'],
    [{ idp_type: 'custom_oidc' }, 'idp_issuer'],
    [{ idp_type: 'custom_oidc', idp_issuer: 'ftp://id.example.com' }, 'idp_issuer'],
    [{ idp_type: 'custom_oidc', idp_issuer: 'https://user:pw@id.example.com' }, 'idp_issuer'],
    [{ idp_type: 'azure', idp_domain: 'common' }, 'idp_domain'],
    [{ idp_type: 'okta', idp_domain: 'https://acme.okta.com' }, 'idp_domain'],
    [{ idp_type: 'okta', idp_domain: '127.0.0.1' }, 'idp_domain'],
    [{ allowed_domains: null }, 'allowed_domains'],
    [{ allowed_domains: ['app.example.com'] }, 'allowed_domains.0'],
    [{ allowed_domains: ['https://app.example.com/path'] }, 'allowed_domains.0'],
    [{ allowed_domains: ['https://*.com'] }, 'allowed_domains.0'],
    [{ organization_id: 'x' }, 'organization_id'],
  ])('rejects %j and changes nothing', async (changes, field) => {
    const before = await read()
    expect((await patch(changes)).body.data).toMatchObject({ code: 'VALIDATION_ERROR', field })
    expect(await read()).toEqual(before)
  })

  test('loses none of 50 concurrent changes of different fields', async () => {
    const fields = {
      idp_type: 'okta',
      idp_domain: 'acme.okta.com',
      idp_issuer: 'https://id.example.com',
      allowed_audiences: ['client'],
      allowed_domains: ['https://app.example.com'],
    }
    const names = Object.keys(fields) as (keyof typeof fields)[]
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => names[n % names.length] as keyof typeof fields).map((name) =>
        patch({ [name]: fields[name] }),
      ),
    )
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    expect(await read()).toEqual(fields)
  })

  test('returns its origins as allowed domains, which can be replaced separately', async () => {
    const domains = '/organizations/current/allowed-domains'
    await patch({ idp_type: 'google' })
    const allowed_domains = ['https://shop.example.com']
    expect((await app.request('PUT', domains, { token, body: { allowed_domains } })).body).toEqual({ allowed_domains })
    expect((await app.request('GET', domains, { token })).body).toEqual({ allowed_domains })
    expect(await read()).toEqual({ ...nothing, idp_type: 'google', allowed_domains })
  })

  test('adds its origins as sites, within the plan’s limit', async () => {
    const app = await useTestService()
    const token = await app.tokenFor('admin@other.test', 'other')
    const declare = (...allowed_domains: string[]) => app.request('PATCH', path, { token, body: { allowed_domains } })
    const sites = async () =>
      (await app.request('GET', '/sites', { token })).body.map(({ origin }: { origin: string }) => origin)
    expect((await declare('https://*.preview.example.com')).status).toBe(200)
    expect(await sites(), 'a wildcard is one site').toEqual(['https://*.preview.example.com'])
    expect((await declare('https://*.preview.example.com', 'https://two.example')).body.message).toBe(
      'Your plan includes 1 site, and it’s in use',
    )
    expect((await declare('https://two.example')).status, 'it replaces the other site').toBe(200)
    expect(await sites()).toEqual(['https://two.example'])
  })
})

describe('the issuer of', () => {
  const settings = (
    idp_type: IdentityProviderSettings['idp_type'],
    idp_domain: string | null,
  ): IdentityProviderSettings => ({
    idp_type,
    idp_domain,
    idp_issuer: null,
    allowed_audiences: ['client'],
  })
  const tenant = '11111111-2222-3333-4444-555555555555'

  test.each<[IdentityProviderSettings['idp_type'], string | null, string]>([
    ['okta', 'acme.okta.com', 'https://acme.okta.com'],
    ['okta', 'Acme.okta.com/oauth2/default', 'https://acme.okta.com/oauth2/default'],
    ['azure', tenant, `https://login.microsoftonline.com/${tenant}/v2.0`],
    ['azure', 'acme.onmicrosoft.com', 'https://login.microsoftonline.com/acme.onmicrosoft.com/v2.0'],
    ['auth0', 'acme.us.auth0.com', 'https://acme.us.auth0.com/'],
    ['google', null, 'https://accounts.google.com'],
    ['workos', 'client_01ABC', 'https://api.workos.com/user_management/client_01ABC'],
    ['workos', 'acme.authkit.app', 'https://acme.authkit.app'],
    ['firebase', 'acme-prod', 'https://securetoken.google.com/acme-prod'],
    ['onelogin', 'acme', 'https://acme.onelogin.com/oidc/2'],
    ['onelogin', 'acme.eu.onelogin.com', 'https://acme.eu.onelogin.com/oidc/2'],
    ['logto', 'acme.logto.app', 'https://acme.logto.app/oidc'],
  ])('%s at %s is %s', (type, domain, issuer) => {
    expect(trustedIssuer(settings(type, domain), 'production')?.issuer).toBe(issuer)
  })

  test('a Firebase project has the project as audience, unless others are set', () => {
    const given = { ...settings('firebase', 'acme-prod'), allowed_audiences: null }
    expect(trustedIssuer(given, 'production')?.audiences).toEqual(['acme-prod'])
  })

  test('Google has a hosted domain if one is set', () => {
    expect(trustedIssuer(settings('google', 'acme.com'), 'production')?.hostedDomain).toBe('acme.com')
  })

  test('no provider is undefined', () => expect(trustedIssuer(settings(null, 'x'), 'production')).toBeUndefined())

  test.each([
    ['azure', 'common'],
    ['azure', 'organizations'],
    ['azure', 'a/b'],
    ['okta', 'acme.okta.com/evil'],
    ['okta', 'acme.okta.com@evil.example'],
    ['auth0', 'evil.example/#'],
    ['logto', 'localhost'],
    ['firebase', 'a/../b'],
  ] as const)('%s at %s is rejected', (type, domain) => {
    expect(() => trustedIssuer(settings(type, domain), 'production')).toThrow(InvalidIdentityProvider)
  })

  test('a custom provider may be plain http only in development', () => {
    const custom = { ...settings('custom_oidc', null), idp_issuer: 'http://127.0.0.1:9000' }
    expect(trustedIssuer(custom, 'development')?.issuer).toBe('http://127.0.0.1:9000')
    expect(() => trustedIssuer(custom, 'production')).toThrow('https')
  })
})

describe('the connection test', () => {
  /** A provider with the responses that a test needs. */
  async function listen(respond: RequestListener): Promise<string> {
    const server = createServer(respond)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }
  async function closedPort(): Promise<string> {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    await new Promise((resolve) => server.close(resolve))
    return `http://127.0.0.1:${port}`
  }
  const json = (body: (url: string) => unknown, status = 200) => {
    const start = async () => {
      const url: string = await listen((_, response) => void response.writeHead(status).end(JSON.stringify(body(url))))
      return url
    }
    return start
  }
  const tryIssuer = (idp_issuer: string) =>
    app.request('POST', '/identity-providers/test', { token, body: { idp_type: 'custom_oidc', idp_issuer } })

  type Status = 'ok' | 'failed' | 'skipped'
  const publicKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ format: 'jwk' })

  test.each<[string, unknown[] | undefined, Status, RegExp]>([
    ['its keys', [publicKey, { ...publicKey, use: 'enc' }], 'ok', /^1 signing key \(EC\)$/],
    ['no key for signatures', [{ ...publicKey, use: 'enc' }], 'failed', /\/keys has no key that can sign ID tokens$/],
    ['no keys at all', undefined, 'failed', /\/keys has no keys$/],
  ])('returns the issuer and the URL of its keys, and the steps, with %s', async (_, keys, status, message) => {
    const url = await json((issuer) => ({ issuer, jwks_uri: `${issuer}/keys`, keys }))()
    expect((await tryIssuer(url)).body).toEqual({
      success: true,
      issuer: url,
      jwks_uri: `${url}/keys`,
      error: null,
      steps: [
        { step: 'discovery', status: 'ok', message: `${url}/.well-known/openid-configuration` },
        { step: 'issuer', status: 'ok', message: url },
        { step: 'endpoints', status: 'ok', message: `${url}/keys` },
        { step: 'keys', status, message: expect.stringMatching(message) },
      ],
    })
  })

  const [atDocument, atIssuer, atEndpoints]: Status[][] = [
    ['failed', 'skipped', 'skipped', 'skipped'],
    ['ok', 'failed', 'skipped', 'skipped'],
    ['ok', 'ok', 'failed', 'skipped'],
  ]
  test.each<[string, () => Promise<string>, RegExp, Status[] | undefined]>([
    ['a name that does not exist', async () => 'https://nowhere.invalid', /could not be resolved/, atDocument],
    ['a closed port', async () => closedPort(), /failed \(ECONNREFUSED\)/, atDocument],
    ['another status', json(() => ({}), 404), /responded with status 404/, atDocument],
    ['a redirect', json(() => ({}), 302), /responded with status 302/, atDocument],
    ['something else', json(() => []), /did not return a JSON object/, atDocument],
    ['a private address', async () => 'https://10.0.0.1', /private or reserved address/, atDocument],
    [
      'another issuer',
      json((url) => ({ issuer: `${url}/`, jwks_uri: url })),
      /Expected the issuer .* says http/,
      atIssuer,
    ],
    ['no issuer', json(() => ({})), /says none/, atIssuer],
    ['no keys', json((issuer) => ({ issuer })), /has no jwks_uri/, atEndpoints],
    ['keys elsewhere', json((issuer) => ({ issuer, jwks_uri: 'ftp://x' })), /jwks_uri/, atEndpoints],
  ])('explains why it fails with %s', async (_, start, message, statuses) => {
    const { steps, ...rest } = (await tryIssuer(await start())).body
    expect(rest).toEqual({ success: false, issuer: null, jwks_uri: null, error: expect.stringMatching(message) })
    expect(steps.map(({ status }: { status: Status }) => status)).toEqual(statuses)
    expect(steps.find(({ status }: { status: Status }) => status === 'failed').message).toBe(rest.error)
  })

  test('requires the settings of the type', async () => {
    const test = async (body: unknown) =>
      (await app.request('POST', '/identity-providers/test', { token, body })).body.data
    expect(await test({ idp_type: 'okta' })).toMatchObject({ field: 'idp_domain' })
    expect(await test({ idp_type: 'custom_oidc' })).toMatchObject({ field: 'idp_issuer' })
    expect(await test({})).toMatchObject({ field: 'idp_type' })
  })

  test('saves nothing', async () => {
    await patch(nothing)
    await tryIssuer('http://127.0.0.1:1')
    expect(await read()).toEqual(nothing)
  })
})
