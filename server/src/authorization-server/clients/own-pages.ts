import type { ClientMetadata } from 'oidc-provider'
import { ownPages } from '../../http/browser-session.ts'

/** Represents this server's own pages as a client. They only need to identify the signed-in user. */
export const ownPagesClientId = 'inlay-pages'

export const ownPagesClient = (publicUrl: string): ClientMetadata => ({
  client_id: ownPagesClientId,
  client_name: 'Inlay',
  token_endpoint_auth_method: 'none',
  redirect_uris: ownPages.map((path) => publicUrl + path),
  grant_types: ['authorization_code'],
  response_types: ['code'],
  scope: 'openid',
})
