/** The resources that a token can be issued for (RFC 8707). */
export const resources = (publicUrl: string) => ({ api: `${publicUrl}/api`, mcp: `${publicUrl}/mcp` })

/** The only scope: act as the user, with their role, in the organization that they chose. */
export const scope = 'inlay'

const wellKnown = '/.well-known/oauth-protected-resource'

/** Headers of discovery documents, which pages of every origin may read. */
export const publicDocument = { 'access-control-allow-origin': '*', 'cache-control': 'public, max-age=300' }

/** Resource metadata by path (RFC 9728). The root describes the MCP endpoint, for clients that only check there. */
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

/** Tells a client without a valid token how to get one (RFC 6750 and RFC 9728). */
export function challenge(resource: string, error?: 'invalid_token' | 'insufficient_scope'): string {
  const { origin, pathname } = new URL(resource)
  const parts = { ...(error && { error }), scope, resource_metadata: `${origin}${wellKnown}${pathname}` }
  return `Bearer ${Object.entries(parts)
    .map(([key, value]) => `${key}="${value}"`)
    .join(', ')}`
}
