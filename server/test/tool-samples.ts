const longText = (length: number) => 'x'.repeat(length)

/** For every tool: arguments that work for every allowed caller, and invalid arguments with their invalid field. */
export const toolSamples: Record<string, { valid: object[]; invalid: [args: object, field: string][] }> = {
  get_profile: { valid: [{}], invalid: [[{ id: 'x' }, 'id']] },
  list_organizations: { valid: [{}], invalid: [[{ limit: 1 }, 'limit']] },
  get_organization: {
    valid: [{ slug: 'demo' }],
    invalid: [
      [{}, ''],
      [{ id: 'x', slug: 'y' }, ''],
      [{ id: 1 }, 'id'],
      [{ slug: null }, 'slug'],
      [{ name: 'x' }, 'name'],
    ],
  },
  list_members: { valid: [{}], invalid: [[{ organization_id: 'x' }, 'organization_id']] },
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
  list_plans: { valid: [{}], invalid: [[{ x: 1 }, 'x']] },
  get_plan_info: {
    valid: [{}, { include: 'basic' }, { include: 'features' }, { include: 'usage' }, { include: 'all' }],
    invalid: [[{ include: 'everything' }, 'include']],
  },
  check_feature: {
    valid: [{ feature: 'sso' }, { feature: 'seats', current_usage: 0 }],
    invalid: [
      [{}, 'feature'],
      [{ feature: 'sites' }, 'feature'],
      [{ feature: 'seats', current_usage: -1 }, 'current_usage'],
      [{ feature: 'seats', current_usage: '1' }, 'current_usage'],
    ],
  },
  get_subscription: {
    valid: [{}, { detail: 'active_check' }, { detail: 'status' }, { detail: 'full' }],
    invalid: [[{ detail: 'none' }, 'detail']],
  },
  get_billing_url: {
    valid: [{ type: 'checkout', product_id: 'inlay_team' }],
    invalid: [
      [{}, 'type'],
      [{ type: 'checkout' }, 'product_id'],
      [{ type: 'checkout', product_id: '' }, 'product_id'],
      [{ type: 'refund' }, 'type'],
    ],
  },
  sync_subscription: { valid: [{}], invalid: [[{ force: true }, 'force']] },
  hub_list_tools: {
    valid: [{}, { search: 'cart' }, { include_sources: true }],
    invalid: [
      [{ include_sources: 'yes' }, 'include_sources'],
      [{ search: longText(201) }, 'search'],
    ],
  },
  hub_list_sources: { valid: [{}], invalid: [[{ tab: 1 }, 'tab']] },
  hub_call_tool: {
    valid: [{ tool_name: 'add_to_cart' }],
    invalid: [
      [{}, 'tool_name'],
      [{ tool_name: '' }, 'tool_name'],
      [{ tool_name: 'x', args: [] }, 'args'],
    ],
  },
  echo: {
    valid: [{ message: 'x' }, { message: longText(1000) }],
    invalid: [
      [{}, 'message'],
      [{ message: '' }, 'message'],
      [{ message: longText(1001) }, 'message'],
      [{ message: 1 }, 'message'],
      [{ message: 'x', loud: true }, 'loud'],
    ],
  },
  verify_api_access: { valid: [{}], invalid: [[{ x: 1 }, 'x']] },
}

/** Fails even with valid arguments, because no page is open. */
export const failingTool = 'hub_call_tool'

interface ToolClient {
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<object>
}

/** Calls every tool, and returns the names of those that failed. */
export async function callEveryTool(client: ToolClient): Promise<string[]> {
  const failed: string[] = []
  for (const [name, { valid }] of Object.entries(toolSamples)) {
    const answer = await client.callTool({ name, arguments: { ...valid[0] } })
    if ('isError' in answer && answer.isError) failed.push(name)
  }
  return failed
}
