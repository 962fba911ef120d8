import { describe, expect, test } from 'vitest'
import { hub, resource, secret } from '../test/fixture.ts'
import { createToolServer, type ToolServerOptions } from './tool-server.ts'

const options: ToolServerOptions = {
  resource,
  hubs: [{ ...hub, issuer: 'https://idp.example.com' }],
  secrets: [secret],
}
const get = async (path: string, changes: Partial<ToolServerOptions> = {}) =>
  createToolServer({ ...options, ...changes }).fetch(new Request(new URL(path, resource)))

const protectedResource = {
  resource,
  authorization_servers: [resource],
  scopes_supported: ['mcp:tools:read', 'mcp:tools:call'],
}

describe('metadata', () => {
  test.each([
    ['/.well-known/oauth-protected-resource', protectedResource],
    ['/.well-known/oauth-protected-resource/mcp', protectedResource],
    ['/.well-known/oauth-protected-resource?from=a-hub', protectedResource],
    [
      '/.well-known/oauth-authorization-server/mcp',
      {
        issuer: resource,
        token_endpoint: 'https://tools.example.com/oauth/token',
        authorization_endpoint: 'https://tools.example.com/oauth/authorize',
        response_types_supported: [],
        grant_types_supported: ['urn:ietf:params:oauth:grant-type:jwt-bearer'],
        authorization_grant_profiles_supported: ['urn:ietf:params:oauth:grant-profile:id-jag'],
        token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic'],
        scopes_supported: ['mcp:tools:read', 'mcp:tools:call'],
      },
    ],
  ])('%s', async (path, document) => {
    const response = await get(path)
    expect(response?.status).toBe(200)
    expect(response?.headers.get('content-type')).toBe('application/json')
    expect(await response?.json()).toEqual(document)
  })

  test('has an authorization endpoint that exists and refuses every request', async () => {
    const metadata = (await (await get('/.well-known/oauth-authorization-server/mcp'))?.json()) as Record<
      string,
      string
    >
    const response = await get(`${metadata.authorization_endpoint}?response_type=code&client_id=hub`)
    expect(response?.status).toBe(400)
    expect(await response?.json()).toEqual({ error: 'unsupported_response_type' })
  })

  test('is only at the root if the resource has no path', async () => {
    const atRoot = { resource: 'https://tools.example.com' }
    const response = await get('/.well-known/oauth-authorization-server', atRoot)
    expect(await response?.json()).toMatchObject({ issuer: 'https://tools.example.com' })
    expect(await get('/.well-known/oauth-authorization-server/mcp', atRoot)).toBeUndefined()
  })

  test('is read-only', async () => {
    const url = new URL('/.well-known/oauth-protected-resource', resource)
    const response = await createToolServer(options).fetch(new Request(url, { method: 'POST' }))
    expect([response?.status, response?.headers.get('allow')]).toEqual([405, 'GET'])
  })

  test.each([
    '/',
    '/mcp',
    '/oauth/tokens',
    '/.well-known/openid-configuration',
    '/.well-known/oauth-authorization-server',
  ])('leaves %s to the application', async (path) => {
    expect(await get(path)).toBeUndefined()
  })
})

describe('options', () => {
  const idp = options.hubs[0] as ToolServerOptions['hubs'][number]
  test.each<[string, Partial<ToolServerOptions>, string]>([
    ['a resource over plain HTTP', { resource: 'http://tools.example.com/mcp' }, 'resource must be an https URL'],
    ['a resource that is not a URL', { resource: 'tools' }, 'resource must be an https URL'],
    ['a resource with a query', { resource: 'https://tools.example.com/mcp?a=1' }, 'neither a query nor a fragment'],
    ['a resource with a fragment', { resource: 'https://tools.example.com/mcp#a' }, 'neither a query nor a fragment'],
    ['no secret', { secrets: [] }, 'at least one'],
    ['a short secret', { secrets: [secret, 'x'.repeat(31)] }, 'at least 32 characters'],
    ['a short lifetime', { lifetime: 299 }, '300 to 3600'],
    ['a long lifetime', { lifetime: 3601 }, '300 to 3600'],
    ['a provider over plain HTTP', { hubs: [{ ...idp, issuer: 'http://idp.example.com' }] }, 'issuer must be'],
    ['keys over plain HTTP', { hubs: [{ ...idp, jwksUri: 'http://idp.example.com/jwks' }] }, 'jwksUri must be'],
    ['a hub without a secret', { hubs: [{ ...idp, clientSecret: '' }] }, 'clientSecret'],
    ['a hub without an id', { hubs: [{ ...idp, clientId: '' }] }, 'clientId'],
    ['two hubs with the same id', { hubs: [idp, idp] }, 'unique'],
  ])('with %s throw an error', (_, changes, message) => {
    expect(() => createToolServer({ ...options, ...changes })).toThrow(message)
  })

  test.each<[string, Partial<ToolServerOptions>]>([
    ['plain HTTP on this machine', { resource: 'http://localhost:8790/mcp' }],
    ['the shortest lifetime', { lifetime: 300 }],
    ['the longest lifetime', { lifetime: 3600 }],
  ])('with %s are accepted', (_, changes) => {
    expect(() => createToolServer({ ...options, ...changes })).not.toThrow()
  })
})
