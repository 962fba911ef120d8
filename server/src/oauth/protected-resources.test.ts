import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../test/harness.ts'
import { issueAccessToken, resources } from './access-tokens.ts'

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

const metadata = () => `scope="inlay", resource_metadata="${url}/.well-known/oauth-protected-resource/api"`

// Abuse case 33.
test('who has no token learns where to get one', async () => {
  const { status, headers } = await app.request('GET', '/users/me')
  expect(status).toBe(401)
  expect(headers.get('www-authenticate')).toBe(`Bearer ${metadata()}`)
})

test('who has a token that is none learns that too', async () => {
  const { status, headers } = await app.request('GET', '/users/me', { token: 'a.b.c' })
  expect(status).toBe(401)
  expect(headers.get('www-authenticate')).toBe(`Bearer error="invalid_token", ${metadata()}`)
})

// Abuse case 33.
test('a token for the MCP endpoint alone is none for the API', async () => {
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
