/** The credentials of Inlay's hub at the identity provider and the tool server. Real secrets don't belong in code. */
export const hub = {
  clientId: 'inlay-hub',
  secretAtIdentityProvider: 'hub-at-the-example-identity-provider',
  secretAtToolServer: 'hub-at-the-example-tool-server',
}
