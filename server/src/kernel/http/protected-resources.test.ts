import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { issueAccessToken } from '../../accounts/access/access-tokens.ts'
import { resources } from './protected-resources.ts'

let app: TestService
let url: string
beforeAll(async () => {
  app = await startTestService()
  url = app.service.config.publicUrl
})
afterAll(() => app.close())

test.each([
  ['', '/mcp'],
  ['/mcp', '/mcp'],
  ['/api', '/api'],
])('the metadata at …%s describes %s', async (below, path) => {
  const response = await app.fetch(`/.well-known/oauth-protected-resource${below}`)
  expect(response.status).toBe(200)
  expect(response.headers.get('access-control-allow-origin')).toBe('*')
  expect(await response.json()).toEqual({
    resource: `${url}${path}`,
    authorization_servers: [url],
    scopes_supported: ['inlay'],
    bearer_methods_supported: ['header'],
  })
})

test.each([
  '/.well-known/oauth-protected-resource',
  '/.well-known/oauth-protected-resource/mcp',
  '/.well-known/oauth-protected-resource/api',
  '/.well-known/oauth-authorization-server',
  '/.well-known/openid-configuration',
  '/oauth/jwks',
])('a page of any origin may read %s', async (path) => {
  const headers = { origin: 'https://tool.example.com' }
  const response = await app.fetch(path, { headers })
  expect(response.status).toBe(200)
  expect(['*', headers.origin]).toContain(response.headers.get('access-control-allow-origin'))
  expect(response.headers.get('access-control-allow-credentials')).toBeNull()
})

test.each(['', '/mcp', '/api'].map((below) => `/.well-known/oauth-protected-resource${below}`))(
  'a page of any origin may send custom headers to %s',
  async (path) => {
    const headers = {
      origin: 'https://tool.example.com',
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'mcp-protocol-version',
    }
    const response = await app.fetch(path, { method: 'OPTIONS', headers })
    expect(response.status).toBe(204)
    expect(response.headers.get('access-control-allow-origin')).toBe('*')
    expect(response.headers.get('access-control-allow-headers')).toBe('mcp-protocol-version')
  },
)

const metadata = () => `scope="inlay", resource_metadata="${url}/.well-known/oauth-protected-resource/api"`

test('tells a client without a token where to get one', async () => {
  const { status, headers } = await app.request('GET', '/users/me')
  expect(status).toBe(401)
  expect(headers.get('www-authenticate')).toBe(`Bearer ${metadata()}`)
})

test('tells a client that its token is invalid', async () => {
  const { status, headers } = await app.request('GET', '/users/me', { token: 'a.b.c' })
  expect(status).toBe(401)
  expect(headers.get('www-authenticate')).toBe(`Bearer error="invalid_token", ${metadata()}`)
})

test('rejects a token for the MCP endpoint at the API', async () => {
  const person = (await app.request('GET', '/users/me', { token: await app.tokenFor('admin@demo.test') })).body
  const token = await issueAccessToken(app.service, {
    userId: person.id,
    audience: [resources(url).mcp],
    lifetimeSeconds: 60,
  })
  const { status, headers } = await app.request('GET', '/users/me', { token })
  expect(status).toBe(401)
  expect(headers.get('www-authenticate')).toContain('error="invalid_token"')
})
