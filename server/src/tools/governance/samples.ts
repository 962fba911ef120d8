import type { TestService } from '../../../test/harness.ts'
import { asOrg, type OperationSamples, type Slug, type ToolSample } from '../../../test/sample-helpers.ts'
import type * as contract from './contract.ts'

export const fillTables = (app: TestService, slug: Slug) =>
  asOrg(
    app,
    slug,
    (sql) => sql`
      insert into governance_providers
        (organization_id, provider_key, interceptor_url, interceptor_name, api_key_last4, is_enabled)
      values (current_organization(), 'byo', '', 'sample', '', false)`,
  )

export const operationSamples: OperationSamples<typeof contract> = {
  getGovernanceProvider: {},
  updateGovernanceProvider: { body: () => ({ interceptor_name: 'sample', is_enabled: true }) },
  clearGovernanceProvider: {},
  testGovernanceProvider: {
    body: () => ({ interceptor_url: 'https://10.0.0.1/', interceptor_name: 'sample', api_key: 'sample-key' }),
  },
}

export const toolSamples: Record<string, ToolSample> = {
  manage_governance_provider: {
    valid: [
      { action: 'get' },
      { action: 'update', provider_key: 'byo', interceptor_name: 'policies' },
      { action: 'clear' },
    ],
    invalid: [
      [{}, 'action'],
      [{ action: 'update', provider_key: 'mine' }, 'provider_key'],
      [{ action: 'update', interceptor_url: 'ftp://x' }, 'interceptor_url'],
      [{ action: 'update', interceptor_name: '' }, 'interceptor_name'],
      [{ action: 'update', api_key: 'short' }, 'api_key'],
      [{ action: 'update', is_enabled: 'yes' }, 'is_enabled'],
    ],
  },
  test_governance_provider: {
    valid: [{ interceptor_url: 'https://10.0.0.1/', interceptor_name: 'sample', api_key: 'sample-key' }],
    invalid: [
      [{}, 'interceptor_url'],
      [{ interceptor_url: 'x' }, 'interceptor_url'],
      [{ is_enabled: true }, 'is_enabled'],
    ],
  },
}
