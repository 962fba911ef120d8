import { randomUUID } from 'node:crypto'
import type { Refusal } from '../src/refusals.ts'
import { createToolServer, type ToolServer, type ToolServerOptions } from '../src/tool-server.ts'
import { startProvider, type TestProvider } from './provider.ts'

export const resource = 'https://tools.example.com/mcp'
export const hub = { clientId: 'hub', clientSecret: 'the secret of: the hub' }
export const secret = 'a secret that the nodes of this server share'
export const bothScopes = 'mcp:tools:read mcp:tools:call'
export const jwtBearer = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

export interface Fixture extends AsyncDisposable {
  provider: TestProvider
  server: ToolServer
  /** Creates another node, or a server with other options. */
  another(options: Partial<ToolServerOptions>): ToolServer
  refusals: Refusal[]
  /** The clock of the servers, in milliseconds. It moves only when a test changes it. */
  time: { now: number }
  /** The claims of a valid assertion. */
  claims(changes?: Record<string, unknown>): Record<string, unknown>
}

export async function setUp(alg?: string): Promise<Fixture> {
  const provider = await startProvider(alg)
  const time = { now: Date.parse('2026-11-20T12:00:00Z') }
  const refusals: Refusal[] = []
  const another = (options: Partial<ToolServerOptions>) =>
    createToolServer({
      resource,
      hubs: [{ ...hub, issuer: provider.issuer }],
      secrets: [secret],
      clock: () => time.now,
      onRefusal: (refusal) => void refusals.push(refusal),
      ...options,
    })
  return {
    provider,
    time,
    refusals,
    another,
    server: another({}),
    claims: (changes = {}) => ({
      iss: provider.issuer,
      sub: 'ann',
      aud: resource,
      client_id: hub.clientId,
      resource,
      scope: bothScopes,
      iat: time.now / 1000,
      exp: time.now / 1000 + 300,
      jti: randomUUID(),
      ...changes,
    }),
    [Symbol.asyncDispose]: () => provider[Symbol.asyncDispose](),
  }
}

export const formRequest = (fields: Record<string, string> | string, headers: Record<string, string> = {}) =>
  new Request('https://tools.example.com/oauth/token', {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams(fields).toString(),
  })

/** A token request as the hub sends it. */
export const tokenRequest = (assertion: string, fields: Record<string, string> = {}) =>
  formRequest({
    grant_type: jwtBearer,
    assertion,
    client_id: hub.clientId,
    client_secret: hub.clientSecret,
    ...fields,
  })

export interface Answered {
  status: number
  body: string
}

export async function answerOf(response: Response | Promise<Response | undefined> | undefined): Promise<Answered> {
  const answered = await response
  if (!answered) throw new Error('The request was not for the tool server')
  return { status: answered.status, body: await answered.text() }
}

export const invalidGrant = { status: 400, body: '{"error":"invalid_grant"}' }
export const unsupportedGrantType = { status: 400, body: '{"error":"unsupported_grant_type"}' }
