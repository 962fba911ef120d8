import type { ClientMetadata } from 'oidc-provider'
import { ownPages } from '../../../kernel/http/browser-session.ts'
import { scope } from '../../../kernel/http/protected-resources.ts'

/** Represents this server's own pages as a client. They only need to identify the signed-in user. */
export const ownPagesClientId = 'inlay-pages'

/** The dashboard. Users don't have to allow it access: it belongs to the server that they sign in at. */
export const dashboardClientId = 'inlay-dashboard'

const ownClientIds: unknown[] = [ownPagesClientId, dashboardClientId]
export const isOwnClient = (clientId: unknown): boolean => ownClientIds.includes(clientId)

const common: Partial<ClientMetadata> = {
  client_name: 'Inlay',
  token_endpoint_auth_method: 'none',
  response_types: ['code'],
}

export const ownClients = (publicUrl: string): ClientMetadata[] => [
  {
    ...common,
    client_id: ownPagesClientId,
    redirect_uris: ownPages.map((path) => publicUrl + path),
    grant_types: ['authorization_code'],
    scope: 'openid',
  },
  {
    ...common,
    client_id: dashboardClientId,
    redirect_uris: [`${publicUrl}/signed-in`],
    grant_types: ['authorization_code', 'refresh_token'],
    scope: `openid ${scope}`,
  },
]
