import { grantType } from './token-endpoint.ts'

/** RFC 9728. */
export const protectedResource = (resource: string, scopes: readonly string[]) => ({
  resource,
  authorization_servers: [resource],
  scopes_supported: scopes,
})

/** RFC 8414, with the profile of the identity assertion grant. */
export const authorizationServer = (resource: string, scopes: readonly string[]) => ({
  issuer: resource,
  token_endpoint: new URL('/oauth/token', resource).href,
  // The MCP SDK refuses metadata without it. The endpoint answers every request with an error.
  authorization_endpoint: new URL('/oauth/authorize', resource).href,
  response_types_supported: [],
  grant_types_supported: [grantType],
  authorization_grant_profiles_supported: ['urn:ietf:params:oauth:grant-profile:id-jag'],
  token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic'],
  scopes_supported: scopes,
})
