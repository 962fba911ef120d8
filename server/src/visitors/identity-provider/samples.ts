import type { TestService } from '../../../test/harness.ts'
import { asOrg, longText, type OperationSamples, type Slug, type ToolSample } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export const fillTables = (app: TestService, slug: Slug) =>
  asOrg(
    app,
    slug,
    (sql) =>
      sql`insert into identity_providers (organization_id) values (current_organization()) on conflict do nothing`,
  )

export const operationSamples: OperationSamples<typeof contract> = {
  getIdentityProviderConfig: {},
  updateIdentityProviderConfig: { body: () => ({ idp_type: 'google', allowed_domains: ['https://app.example.com'] }) },
  testIdentityProvider: { body: () => ({ idp_type: 'custom_oidc', idp_issuer: 'http://127.0.0.1:9' }) },
  getAllowedDomains: {},
  setAllowedDomains: { body: () => ({ allowed_domains: ['https://app.example.com'] }) },
}

export const toolSamples: Record<string, ToolSample> = {
  manage_idp_config: {
    valid: [
      { action: 'get' },
      { action: 'update' },
      { action: 'update', idp_type: 'google', idp_client_id: 'client', allowed_domains: ['https://a.example.com'] },
      { action: 'clear' },
    ],
    invalid: [
      [{}, 'action'],
      [{ action: 'delete' }, 'action'],
      [{ action: 'update', idp_type: 'workos' }, 'idp_type'],
      [{ action: 'update', idp_type: 'idp_vendor_5' }, 'idp_type'],
      [{ action: 'update', idp_type: null }, 'idp_type'],
      [{ action: 'update', idp_client_id: '' }, 'idp_client_id'],
      [{ action: 'update', idp_client_id: longText(256) }, 'idp_client_id'],
      [{ action: 'update', idp_type: 'custom_oidc' }, 'idp_issuer'],
      [{ action: 'update', idp_issuer: 'no url' }, 'idp_issuer'],
      [{ action: 'update', allowed_domains: ['https://a.example.com/path'] }, 'allowed_domains.0'],
      [{ action: 'update', allowed_audiences: ['x'] }, 'allowed_audiences'],
    ],
  },
  test_idp_connection: {
    valid: [{ idp_type: 'custom_oidc', idp_issuer: 'http://127.0.0.1:9' }],
    invalid: [
      [{}, 'idp_type'],
      [{ idp_type: 'logto', idp_domain: 'x.logto.app' }, 'idp_type'],
      [{ idp_type: 'okta' }, 'idp_domain'],
      [{ idp_type: 'idp_vendor_2' }, 'idp_domain'],
      [{ idp_type: 'auth0' }, 'idp_domain'],
      [{ idp_type: 'custom_oidc' }, 'idp_issuer'],
    ],
  },
}
