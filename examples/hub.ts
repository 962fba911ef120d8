/** Inlay's hub as the identity provider and the tool server know it. On a real one the secrets would be secret. */
export const hub = {
  clientId: 'inlay-hub',
  secretAtIdentityProvider: 'hub-at-the-example-identity-provider',
  secretAtToolServer: 'hub-at-the-example-tool-server',
}
