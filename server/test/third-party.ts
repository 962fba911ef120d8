import { randomUUID } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * A tool server that requires tokens, and its authorization server, which allows every request without asking by
 * default.
 */
export interface ThirdParty {
  url: string
  serverUrl: string
  /** Overrides fields of the tool server's metadata. */
  resource: Record<string, unknown>
  /** Overrides fields of its authorization server's metadata. */
  metadata: Record<string, unknown>
  /** The only client, as in the response to a registration. */
  client: Record<string, unknown>
  /** Overrides fields of the tokens that it issues. */
  tokens: Record<string, unknown>
  denies: boolean
  /** The token requests that it received. */
  redeemed: Record<string, string>[]
  registrations: number
  /** The revocation requests that it received. */
  revoked: { form: Record<string, string>; authorization: string | undefined }[]
  /** Replaces its response at a path. */
  instead: Record<string, (response: ServerResponse) => unknown>
  /** Returns where it redirects the browser for an authorization request. */
  decide(authorizeUrl: string): URL
  reset(): void
  stop(): Promise<void>
}

const fresh = () => ({
  resource: {},
  metadata: {},
  client: { token_endpoint_auth_method: 'none' },
  tokens: {},
  redeemed: [],
  denies: false,
  registrations: 0,
  revoked: [],
  instead: {},
})

export async function startThirdParty(): Promise<ThirdParty> {
  const server = createServer(async (request, response) => {
    const { url = '', headers } = request
    const text = Buffer.concat(await request.toArray()).toString()
    const form = Object.fromEntries(new URLSearchParams(text))
    const send = (body: unknown) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
    const [path = ''] = url.split('?')
    if (path === '/revoke') third.revoked.push({ form, authorization: headers.authorization })
    if (path === '/token') third.redeemed.push(form)
    if (third.instead[path]) return third.instead[path](response)
    switch (path) {
      case '/.well-known/oauth-protected-resource/mcp':
        return send({ resource: third.serverUrl, authorization_servers: [third.url], ...third.resource })
      case '/.well-known/oauth-authorization-server':
        return send({ ...describe(third.url), ...third.metadata })
      case '/register':
        third.registrations += 1
        return send({ ...JSON.parse(text), client_id: randomUUID(), ...third.client })
      case '/authorize':
        return response.writeHead(302, { location: third.decide(third.url + url).href }).end()
      case '/token':
        return send({ ...issueTokens(), ...third.tokens })
      case '/revoke':
        return response.end()
      case '/mcp':
        return response.writeHead(401).end()
      default:
        return response.writeHead(404).end()
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const third: ThirdParty = {
    url,
    serverUrl: `${url}/mcp`,
    ...fresh(),
    decide(authorizeUrl) {
      const { redirect_uri = '', state = '' } = Object.fromEntries(new URL(authorizeUrl).searchParams)
      const back = new URL(redirect_uri)
      const decision: Record<string, string> = third.denies ? { error: 'access_denied' } : { code: randomUUID() }
      back.search = new URLSearchParams({ ...decision, state, iss: url }).toString()
      return back
    },
    reset: () => void Object.assign(third, fresh()),
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return third
}

const issueTokens = () => ({
  access_token: randomUUID(),
  refresh_token: randomUUID(),
  token_type: 'Bearer',
  expires_in: 3600,
})

const describe = (url: string) => ({
  issuer: url,
  authorization_endpoint: `${url}/authorize`,
  token_endpoint: `${url}/token`,
  registration_endpoint: `${url}/register`,
  revocation_endpoint: `${url}/revoke`,
  response_types_supported: ['code'],
  code_challenge_methods_supported: ['S256'],
  authorization_response_iss_parameter_supported: true,
})
