import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../http-server.ts'
import { usePage, useSite } from './chromium.ts'
import { comeBack, press } from './visit.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

/** Requests that a page sends to another origin; a browser lets it read the responses only if that origin agrees. */
const pageScript = `
  const version = { 'mcp-protocol-version': '2026-07-28' }
  const json = { 'content-type': 'application/json' }

  async function discover(mcp) {
    const challenge = await fetch(mcp, { method: 'POST', headers: { ...version, ...json }, body: '{}' })
    const [, document] = /resource_metadata="([^"]+)"/.exec(challenge.headers.get('www-authenticate'))
    const resource = await (await fetch(document, { headers: version })).json()
    const [issuer] = resource.authorization_servers
    const server = await fetch(issuer + '/.well-known/oauth-authorization-server', { headers: version })
    return { status: challenge.status, server: await server.json() }
  }

  async function register({ registration_endpoint }, redirect_uri) {
    const body = JSON.stringify({ redirect_uris: [redirect_uri], token_endpoint_auth_method: 'none' })
    return (await fetch(registration_endpoint, { method: 'POST', headers: json, body })).json()
  }

  async function redeem({ token_endpoint }, form) {
    const body = new URLSearchParams({ grant_type: 'authorization_code', ...form })
    return (await fetch(token_endpoint, { method: 'POST', headers: version, body })).json()
  }

  async function listTools(mcp, token) {
    const headers = { ...version, ...json, 'mcp-method': 'tools/list', authorization: 'Bearer ' + token }
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } })
    return (await fetch(mcp, { method: 'POST', headers, body })).json()
  }
`

// RFC 7636, appendix B.
const verifier = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
const challenge = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'

test('an MCP client in a page of another origin discovers, registers, signs in and lists tools', async () => {
  const site = await useSite(`<h1>Client</h1><script>${pageScript}</script>`)
  const callback = `${site}/callback`
  const mcp = `${app.url}/mcp`
  const page = await usePage()
  await page.goto(site)
  // biome-ignore lint/suspicious/noExplicitAny: what a page's script returns
  const inPage = (call: string): Promise<any> =>
    page.evaluate(call).catch((error) => {
      // Without the page's stack, whose URLs aren't files.
      throw new Error(String(error).split('\n')[0])
    })

  const { status, server } = await inPage(`discover('${mcp}')`)
  expect(status).toBe(401)
  const { client_id } = await inPage(`register(${JSON.stringify(server)}, '${callback}')`)
  const request = {
    client_id,
    redirect_uri: callback,
    response_type: 'code',
    resource: mcp,
    scope: 'inlay',
    code_challenge: challenge,
    code_challenge_method: 'S256',
  }
  await page.goto(`${server.authorization_endpoint}?${new URLSearchParams(request)}`)
  await press(page, 'admin@demo.test')
  await press(page, 'Allow')
  const code = (await comeBack(page, callback)).searchParams.get('code')
  const form = { client_id, redirect_uri: callback, code, code_verifier: verifier, resource: mcp }
  const { access_token } = await inPage(`redeem(${JSON.stringify(server)}, ${JSON.stringify(form)})`)
  const { result } = await inPage(`listTools('${mcp}', '${access_token}')`)
  expect(result.tools.length).toBeGreaterThan(10)
})
