/** The resources that a token can be for (RFC 8707). */
export const resources = (publicUrl: string) => ({ api: `${publicUrl}/api`, mcp: `${publicUrl}/mcp` })

/** The one scope there is: to act as the person, with their role, in the organization that they chose. */
export const scope = 'inlay'

const wellKnown = '/.well-known/oauth-protected-resource'

/** Headers of documents that clients discover the server with, which pages of every origin may read. */
export const publicDocument = { 'access-control-allow-origin': '*', 'cache-control': 'public, max-age=300' }

/** RFC 9728, by path. The root speaks for the MCP endpoint, for clients that look nowhere else. */
export function protectedResources(publicUrl: string): [path: string, metadata: object][] {
  const { api, mcp } = resources(publicUrl)
  const describe = (resource: string) => ({
    resource,
    authorization_servers: [publicUrl],
    scopes_supported: [scope],
    bearer_methods_supported: ['header'],
  })
  return [
    [wellKnown, describe(mcp)],
    [`${wellKnown}/mcp`, describe(mcp)],
    [`${wellKnown}/api`, describe(api)],
  ]
}

/** RFC 6750 with RFC 9728: what a client without a good token needs to know to get one. */
export function challenge(resource: string, error?: 'invalid_token' | 'insufficient_scope'): string {
  const { origin, pathname } = new URL(resource)
  const parts = { ...(error && { error }), scope, resource_metadata: `${origin}${wellKnown}${pathname}` }
  return `Bearer ${Object.entries(parts)
    .map(([key, value]) => `${key}="${value}"`)
    .join(', ')}`
}
