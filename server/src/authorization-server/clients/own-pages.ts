import type { ClientMetadata } from 'oidc-provider'
import { ownPages } from '../../http/browser-session.ts'

/** The pages of this server, as a client of its own: they only want to know who sits at the browser. */
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
