/** The parts of a JSON Schema that examples are generated from. */
interface Schema {
  $ref?: string
  type?: string | string[]
  format?: string
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  const?: unknown
  enum?: unknown[]
  default?: unknown
}

/** Generates an example of an operation's request or response from its schema and the values below. */
export function exampleOf(
  schema: unknown,
  components: Record<string, unknown>,
  { operation, part }: { operation: string; part: 'request' | 'response' },
): unknown {
  const name = `${operation} ${part}`
  const example = wholeExamples[name] ?? build(schema as Schema, components as Record<string, Schema>, operation)
  const outcome = outcomes[name]
  return outcome ? { ...(example as object), ...outcome } : example
}

/** Looks values up by `place`: the component, the property that contains the object, or the operation. */
function build(schema: Schema, components: Record<string, Schema>, place: string, name = ''): unknown {
  const known = [`${place}.${name}`, name].find((key) => Object.hasOwn(values, key))
  if (known !== undefined && schema.const === undefined) return values[known]
  if (schema.$ref) {
    const component = schema.$ref.split('/').at(-1) ?? ''
    return build(components[component] ?? {}, components, component)
  }
  const { properties, items, anyOf, oneOf } = schema
  if (properties) {
    const within = name || place
    return Object.fromEntries(
      Object.entries(properties).map(([key, child]) => [key, build(child, components, within, key)]),
    )
  }
  if (items) return [build(items, components, name || place)]
  const [variant] = anyOf ?? oneOf ?? []
  if (variant) return build(variant, components, place, name)
  return schema.const ?? schema.enum?.[0] ?? schema.default ?? plainExample(schema)
}

const formatted: Record<string, string> = {
  'date-time': '2026-11-14T16:05:12.480Z',
  date: '2026-11-14',
  email: 'ada@example.com',
  uri: 'https://example.com/',
  uuid: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
}

function plainExample({ type, format = '' }: Schema): unknown {
  const plain: Record<string, unknown> = {
    string: formatted[format] ?? 'text',
    integer: 1,
    number: 1,
    boolean: true,
    object: {},
  }
  return plain[[type].flat()[0] ?? ''] ?? null
}

const skill = `---
name: refund-policy
description: Use when a customer asks for a refund.
---

Refund orders up to 30 days after delivery.
`

const key = 'pk_live_7Qm2ZtR4x9LkV1bN8cYwF3hJ6sDpA0eGuT5iXoMfKrW2yBz'
const [userId, organizationId, keyId, siteId, endUserId, threadId] = ['a1', 'b2', 'c3', 'd4', 'e5', 'f6'].map(
  (end) => `019a8c3e-5b70-7c41-9f2e-3d6b8a4c10${end}`,
)

/** Values of properties by name. `place.property` only applies to one schema or operation. */
const values: Record<string, unknown> = {
  'ToolCallContents.arguments': '{"product_id":"ink-blue"}',
  'ToolCallContents.result': '{"content":[{"type":"text","text":"Added"}],"isError":false}',
  contents_days: 30,
  'ToolCall.approval': 'allowed',
  'ToolCall.approval_at': '2026-11-14T16:05:14.120Z',
  'ToolCall.arguments_hash': 'q1kX0nJm2Vb8wPzEXAMPLE',
  'ToolCall.client_id': 'dcr_EXAMPLE',
  'ToolCall.client_name': 'Claude',
  'ToolCall.definition_hash': '9a3e0c1f5bEXAMPLE',
  'ToolCall.duration_ms': 1840,
  'ToolCall.failure_code': null,
  'ToolCall.governance': 'allowed',
  'ToolCall.source': 'https://shop.example.com',
  'ToolCall.tool': 'add_to_cart',
  'ToolCall.user_email': 'ada@example.com',
  'ToolCall.user_id': '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1002',
  action: 'publishable_key.created',
  actor: 'ada@example.com',
  active_threads: 40,
  after: '60 days',
  allowed_audiences: ['0oa1b2c3d4EXAMPLE'],
  allowed_domains: ['https://app.example.com'],
  allowed_origins: ['https://app.example.com'],
  allowed_tools: null,
  anchor: 'after delivery.',
  api_key: 'gk_EXAMPLE_4f2a',
  api_key_last4: '4f2a',
  app_id: 123456,
  app_slug: 'inlay-acme',
  app_url: 'https://github.com/apps/inlay-acme',
  archived_at: null,
  archived_threads: 2,
  avatar_url: '',
  bearer_token: 'scim_EXAMPLE',
  before: '30 days',
  body: '\nRefund orders up to 30 days after delivery.\n',
  broken_at: null,
  cancel_at: null,
  client_id: 'inlay-hub',
  client_secret: 'cs_EXAMPLE_9d1c',
  client_secret_last4: '9d1c',
  'Refusal.code': 'INVALID_TOKEN',
  compatibility: null,
  completion_tokens: 310,
  content: skill,
  created_at: '2026-11-02T09:30:00.000Z',
  created_by: 'ada@example.com',
  current_period_end: '2026-12-01T00:00:00.000Z',
  current_usage: 24,
  customer_id: 'cus_EXAMPLE',
  data: { name: 'Shop' },
  date: '2026-11-14',
  deleted: 0,
  description: 'Use when a customer asks for a refund.',
  'Plan.description': 'For growing teams',
  'plan.description': 'For growing teams',
  'HubTool.description': 'Adds a product to the cart of the user who has this page open.',
  details: 'The tool can change data.',
  display_name: 'Support',
  domain: 'acme.example',
  domains: ['*'],
  email: 'ada@example.com',
  'Invitation.email': 'grace@example.com',
  'createInvitation.email': 'grace@example.com',
  embedding_origin: 'https://app.example.com',
  end_user_id: endUserId,
  end_users_used: 1280,
  'PlanLimits.end_users': 5000,
  'PlanLimits.seats': 25,
  'PlanLimits.sites': 10,
  'PlanLimits.skills': 200,
  error: null,
  expected: '0oa1b2c3d4EXAMPLE',
  expected_version: 3,
  expiresAt: 1_794_672_060_000,
  expiresIn: 60,
  external_id: '00u1a2b3c4EXAMPLE',
  finish_reason: 'stop',
  github_org_name: 'acme',
  group_count: 4,
  hash: '5f1d7a84e02c4b6d9c3fEXAMPLE',
  head: `${organizationId}:42:5f1d7a84e02c4b6d9c3fEXAMPLE`,
  id: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001',
  'Profile.id': userId,
  'user.id': userId,
  'Organization.id': organizationId,
  'organization.id': organizationId,
  'organizations.id': organizationId,
  'PublishableKey.id': keyId,
  'CreatedPublishableKey.id': keyId,
  'Site.id': siteId,
  'EndUser.id': endUserId,
  'Thread.id': threadId,
  'PlanFeatures.scim': false,
  'PlanFeatures.audit_logs': false,
  'PlanFeatures.custom_domains': false,
  'Plan.id': 'team',
  'plan.id': 'team',
  'Subscription.id': 'sub_EXAMPLE',
  id_token: 'eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiIwMHUxIn0.c2lnbmF0dXJl',
  idp_client_id: null,
  idp_client_secret: 'cs_EXAMPLE_77e0',
  idp_client_secret_last4: null,
  idp_domain: 'acme.okta.com',
  idp_issuer: null,
  idp_type: 'okta',
  inputSchema: { type: 'object', properties: { product_id: { type: 'string' } }, required: ['product_id'] },
  interceptor_name: 'Acme policies',
  interceptor_url: 'https://policies.example.com/decide',
  invited_by: 'ada@example.com',
  issuer: 'https://acme.okta.com',
  jwks_uri: 'https://acme.okta.com/oauth2/v1/keys',
  key,
  key_prefix: key.slice(0, 12),
  last_test_message: 'The interceptor let the sample call pass.',
  latency_ms: 84,
  length: 42,
  license: null,
  location: null,
  manifest: '{"name":"inlay-acme-4f2a9c","public":false}',
  message: 'The token is for another application; add its client ID to the allowed audiences',
  'GovernanceTest.message': 'The interceptor let the sample call pass.',
  'steps.message': 'The server offers 12 tools.',
  'Warning.message': 'The key “Shop” works on any website. Set its allowed origins.',
  message_count: 6,
  metadata: null,
  'EndUser.metadata': '{"name":"Ada Lovelace","email_verified":true}',
  model: 'gpt-5-mini',
  name: 'Acme',
  'Profile.name': 'Ada Lovelace',
  'user.name': 'Ada Lovelace',
  'DirectoryUser.name': 'Ada Lovelace',
  'PublishableKey.name': 'Shop',
  'CreatedPublishableKey.name': 'Shop',
  'createPublishableKey.name': 'Shop',
  'updatePublishableKey.name': 'Shop',
  'Site.name': 'app.example.com',
  'Skill.name': 'refund-policy',
  'SavedSkill.name': 'refund-policy',
  'SkillSummary.name': 'refund-policy',
  'Plan.name': 'Team',
  'plan.name': 'Team',
  'Connector.name': 'orders',
  'createConnector.name': 'orders',
  'updateConnector.name': 'orders',
  'HubTool.name': 'add_to_cart',
  next_cursor: null,
  orgId: organizationId,
  organization_id: organizationId,
  origin: 'https://app.example.com',
  plan_id: 'team',
  policy_id: 'no-destructive-tools',
  product_id: 'prod_EXAMPLE',
  prompt_tokens: 1520,
  publishable_key: key,
  publishable_key_id: keyId,
  query: 'refund',
  reason: null,
  'GovernanceProvider.reason': 'The governance provider checks every tool call.',
  registration_url: 'https://github.com/organizations/acme/settings/apps/new?state=EXAMPLE',
  repository: 'acme/skills',
  revoked_at: null,
  scim_base_url: `https://inlay.example.com/scim/v2/${organizationId}`,
  scopes: ['mcp:tools:read', 'mcp:tools:call'],
  seats_used: 8,
  seen: '0oa9z8y7x6EXAMPLE',
  sequence: 42,
  server_url: 'https://tools.example.com/mcp',
  site_id: siteId,
  slug: 'acme',
  sourceId: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1007',
  'Subscription.status': 'active',
  'SubscriptionStatus.status': 'active',
  'updateThread.status': 'archived',
  'Refusal.surface': 'id_token',
  'Refusal.step': 'audience',
  'steps.step': 'tools_list',
  tabId: '019a8c3e-5b70-7c41-9f2e-3d6b8a4c1008',
  target: keyId,
  text: ' Ask for the order number first.',
  ticket: 'tk_EXAMPLE',
  title: 'Where is my order?',
  'HubSource.title': 'Paper & Pen',
  tokens: 11,
  toolCount: 3,
  total_completion_tokens: 3050,
  total_messages: 260,
  total_prompt_tokens: 15_200,
  total_requests: 12,
  total_threads: 42,
  total_tokens: 18_250,
  'UsageEvent.total_tokens': 1830,
  url: 'https://app.example.com/cart',
  'Invitation.role': 'member',
  'createInvitation.role': 'member',
  'MyInvitation.role': 'member',
  provider_key: 'byo',
  'Invitation.url': 'https://inlay.example.com/invitations',
  updated_at: '2026-11-14T16:05:12.480Z',
  userId: endUserId,
  user_count: 36,
  user_name: 'ada@example.com',
  version: 3,
  violations: [],
  // Omitted, as in a response without warnings.
  'SavedSkill.warnings': undefined,
}

/** Requests and responses whose fields depend on each other, and those that aren't objects. */
const wholeExamples: Record<string, unknown> = {
  'updateIdentityProviderConfig request': {
    idp_type: 'okta',
    idp_domain: 'acme.okta.com',
    allowed_audiences: ['0oa1b2c3d4EXAMPLE'],
    allowed_domains: ['https://app.example.com'],
  },
  'testIdentityProvider request': { idp_type: 'okta', idp_domain: 'acme.okta.com' },
  'createConnector request': {
    name: 'orders',
    kind: 'id_jag',
    server_url: 'https://tools.example.com/mcp',
    client_id: 'inlay-hub',
    client_secret: 'cs_EXAMPLE_9d1c',
  },
  'updateConnector request': { scopes: ['mcp:tools:read'] },
  'checkFeature request': { feature: 'seats' },
  'checkFeature response': { feature: 'seats', allowed: true, reason: null },
  'patchSkill request': {
    patch: { version: 1, operations: [{ type: 'replace', before: '30 days', after: '60 days' }] },
    expected_version: 3,
  },
  'testConnector response': {
    success: true,
    steps: [
      { step: 'metadata', status: 'ok', message: 'The server accepts tokens of https://tools.example.com.' },
      { step: 'provider_exchange', status: 'ok', message: 'The identity provider issued an assertion.' },
      { step: 'redemption', status: 'ok', message: 'The server issued an access token.' },
      { step: 'tools_list', status: 'ok', message: 'The server offers 12 tools.' },
    ],
  },
  'clearGovernanceProvider response': {
    effective_status: 'bypassed',
    reason: 'No governance provider is configured, so tool calls aren’t checked.',
    config: null,
  },
  'getCheckoutUrl response': `https://billing.example.com/checkout?product=prod_EXAMPLE&customerExternalId=${organizationId}`,
  'getPortalUrl response': 'https://billing.example.com/portal',
}

/** Fields that an operation changes in the resource that it returns. */
const outcomes: Record<string, Record<string, unknown>> = {
  'updateMember request': { role: 'member' },
  'updateMember response': { role: 'member' },
  'createPublishableKey response': { last_used_at: null },
  'revokePublishableKey response': { revoked_at: '2026-11-14T16:05:12.480Z' },
  'updateConnector response': { scopes: ['mcp:tools:read'] },
  'createSkill response': { version: 1 },
  'patchSkill response': {
    version: 4,
    content: skill.replace('30 days', '60 days'),
    body: '\nRefund orders up to 60 days after delivery.\n',
  },
  'archiveSkill response': { archived_at: '2026-11-14T16:05:12.480Z' },
  'restoreSkill request': { version: 2 },
  'restoreSkill response': { version: 4 },
  'updateThread response': { status: 'archived' },
  'createDirectory response': { user_count: 0, group_count: 0 },
}
