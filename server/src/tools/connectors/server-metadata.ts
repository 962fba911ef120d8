import type { Service } from '../../kernel/foundation/service.ts'
import { findEndpointProblem } from '../../kernel/net/endpoints.ts'
import { readDocument } from './exchanges.ts'
import { type Step, StepFailed } from './steps.ts'

/** The authorization server of a tool server. */
export interface ServerMetadata {
  issuer: string
  token_endpoint: string
  /** How clients authenticate at the token endpoint. */
  authentication: 'client_secret_post' | 'client_secret_basic'
}

type Fetching = Pick<Service, 'fetch'>
type Document = Record<string, unknown>

const step = 'metadata'

/** Reads RFC 9728 and RFC 8414 metadata. Without any, the token endpoint is `/oauth/token`. */
export async function readServerMetadata(service: Fetching, serverUrl: string): Promise<ServerMetadata> {
  const resource = await findDocument(service, step, resourceAddresses(serverUrl))
  if (resource) checkResource(resource, serverUrl)
  const issuer = resource ? firstAuthorizationServer(resource) : new URL(serverUrl).origin
  const server = await findAuthorizationServer(service, step, issuer)
  if (!server) {
    const token_endpoint = new URL('/oauth/token', serverUrl).href
    return { issuer: resource ? issuer : serverUrl, token_endpoint, authentication: 'client_secret_post' }
  }
  const { token_endpoint } = server
  if (typeof token_endpoint !== 'string') {
    throw new StepFailed(step, 'The authorization server’s metadata has no token_endpoint')
  }
  checkEndpoints(step, { token_endpoint }, serverUrl)
  return { issuer, token_endpoint, authentication: chooseAuthentication(server) }
}

/** Reads the metadata of an authorization server; undefined if it publishes none. */
export async function findAuthorizationServer(
  service: Fetching,
  step: Step,
  issuer: string,
): Promise<Document | undefined> {
  const server = await findDocument(service, step, authorizationServerAddresses(issuer))
  if (!server || server.issuer === issuer) return server
  const found = { expected: issuer, seen: show(server.issuer) }
  throw new StepFailed(step, 'The authorization server’s metadata is for another issuer', found)
}

const links = new Set(['authorization_endpoint'])

/** Checks URLs from an untrusted document. Missing ones are accepted. */
export function checkEndpoints(step: Step, endpoints: Document, namedBy: string): void {
  for (const [name, address] of Object.entries(endpoints)) {
    if (address === undefined) continue
    const problem = findEndpointProblem({ name, address, namedBy, isLink: links.has(name) })
    if (problem) throw new StepFailed(step, `In the authorization server’s metadata, ${problem}`)
  }
}

async function findDocument(
  service: Fetching,
  step: Step,
  addresses: readonly string[],
): Promise<Document | undefined> {
  for (const address of addresses) {
    const document = await readDocument(service, step, address)
    if (document) return document
  }
  return undefined
}

/** The path-inserted form comes first, because the root document may describe another resource. */
function resourceAddresses(serverUrl: string): string[] {
  const { origin, path } = split(serverUrl)
  const root = `${origin}/.well-known/oauth-protected-resource`
  return path ? [`${root}${path}`, root] : [root]
}

function authorizationServerAddresses(issuer: string): string[] {
  const { origin, path } = split(issuer)
  const inserted = ['oauth-authorization-server', 'openid-configuration'].map(
    (name) => `${origin}/.well-known/${name}${path}`,
  )
  return path ? [...inserted, `${origin}${path}/.well-known/openid-configuration`] : inserted
}

function split(address: string): { origin: string; path: string } {
  const { origin, pathname } = new URL(address)
  return { origin, path: pathname.replace(/\/$/, '') }
}

function checkResource({ resource }: Document, serverUrl: string): void {
  if (typeof resource === 'string' && URL.parse(resource)?.href === new URL(serverUrl).href) return
  throw new StepFailed(step, 'The protected resource metadata is for another resource', {
    expected: serverUrl,
    seen: show(resource),
  })
}

function firstAuthorizationServer({ authorization_servers }: Document): string {
  const [first] = Array.isArray(authorization_servers) ? authorization_servers : []
  if (typeof first === 'string' && URL.canParse(first)) return first
  throw new StepFailed(step, 'The protected resource metadata has no authorization server')
}

function chooseAuthentication({ token_endpoint_auth_methods_supported: methods }: Document) {
  const wantsBasic =
    Array.isArray(methods) && methods.includes('client_secret_basic') && !methods.includes('client_secret_post')
  return wantsBasic ? 'client_secret_basic' : 'client_secret_post'
}

const show = (value: unknown) => (typeof value === 'string' ? value.slice(0, 200) : 'none')
